-- Unique locks that are held, by key. ?1 q, ?2 key behind which to begin, ?3 now, ?4 how many.
-- Rows: key, id, until, state of the task of that id or null.
SELECT l.key, l.id, l.until, (SELECT t.state FROM main.task AS t WHERE t.q = l.q AND t.id = l.id)
FROM main.ulock AS l WHERE l.q = ?1 AND l.key > ?2 AND l.until > ?3 ORDER BY l.key LIMIT ?4
