-- Active tasks whose lease has passed. ?1 q, ?2 now, ?3 how many. Rows: seq, id.
SELECT seq, id FROM main.task WHERE q = ?1 AND state = 1 AND at <= ?2 ORDER BY at, seq LIMIT ?3
