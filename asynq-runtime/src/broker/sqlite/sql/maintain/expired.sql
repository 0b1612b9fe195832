-- Completed tasks whose retention has passed. ?1 q, ?2 now, ?3 how many. Rows: seq.
SELECT seq FROM main.task WHERE q = ?1 AND state = 6 /* completed */ AND at <= ?2 ORDER BY at, seq LIMIT ?3
