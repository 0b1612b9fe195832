-- The queues that have a task of this id. ?1 id. Rows: name.
SELECT q.name FROM main.queue AS q WHERE EXISTS (SELECT 1 FROM main.task AS t WHERE t.q = q.q AND t.id = ?1) ORDER BY q.name
