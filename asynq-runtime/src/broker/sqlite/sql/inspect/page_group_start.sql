-- Where a page of inspect/page_group begins; the index alone is read. ?1 q, ?2 group, ?3 how many come before. Row: at, seq.
SELECT t.at, t.seq FROM main.task AS t INDEXED BY task_group
WHERE t.q = ?1 AND t.grp = ?2 AND t.state = 7 /* aggregating */ AND t.batch IS NULL ORDER BY t.at, t.seq LIMIT 1 OFFSET ?3
