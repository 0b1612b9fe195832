-- Locks that no task holds, among the first. ?1 q, ?2 now, ?3 how many to look at. Rows: key.
SELECT l.key
FROM (SELECT u.q, u.key, u.id FROM main.ulock AS u WHERE u.q = ?1 AND u.until > ?2 LIMIT ?3) AS l
WHERE NOT EXISTS (SELECT 1 FROM main.task AS t WHERE t.q = l.q AND t.id = l.id)
