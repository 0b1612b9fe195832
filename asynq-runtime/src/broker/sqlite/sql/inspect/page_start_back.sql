-- As inspect/page_start, counted from the last task: nearer where the page is in the second half. ?1 q, ?2 state,
-- ?3 how many come after. Row: at, seq.
SELECT t.at, t.seq FROM main.task AS t WHERE t.q = ?1 AND t.state = ?2 ORDER BY t.at DESC, t.seq DESC LIMIT 1 OFFSET ?3
