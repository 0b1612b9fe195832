-- Where a page begins, counted from the first task, in the index alone. ?1 q, ?2 state, ?3 how many come before. Row: at, seq.
SELECT t.at, t.seq FROM main.task AS t WHERE t.q = ?1 AND t.state = ?2 ORDER BY t.at, t.seq LIMIT 1 OFFSET ?3
