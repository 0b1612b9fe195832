-- Scheduled tasks that are due. ?1 q, ?2 now, ?3 how many. Rows: at, seq.
SELECT at, seq FROM main.task WHERE q = ?1 AND state = 3 AND at <= ?2 ORDER BY at, seq LIMIT ?3
