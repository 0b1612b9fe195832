-- The last error of a task, whichever server wrote it. ?1 queue name, ?2 id. Row: error, when, retried; none if it has no error.
SELECT t.err, t.failed_at, t.retried FROM main.task AS t
WHERE t.q = (SELECT q FROM main.queue WHERE name = ?1) AND t.id = ?2 AND t.err IS NOT NULL AND t.failed_at IS NOT NULL
