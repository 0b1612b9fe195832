-- Scheduled tasks that are due. ?1 q, ?2 now, ?3 how many. Rows: at, seq, whether it has a group.
SELECT at, seq, grp IS NOT NULL FROM main.task WHERE q = ?1 AND state = 3 /* scheduled */ AND at <= ?2 ORDER BY at, seq LIMIT ?3
