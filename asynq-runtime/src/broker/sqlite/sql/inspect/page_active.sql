-- A page of the running tasks, oldest run first (extending a lease moves `at`, so the run decides).
-- ?1 queue name, ?2 size, ?3 offset. Rows: a task as in inspect/task.
SELECT t.state, t.at, t.id, t.crashes, t.retried, t.err, t.failed_at, t.retention, t.progress, t.progress_note, b.msg, b.result
FROM main.task AS t JOIN main.body AS b ON b.seq = t.seq
WHERE t.q = (SELECT q FROM main.queue WHERE name = ?1) AND t.state = 1 ORDER BY t.run, t.seq LIMIT ?2 OFFSET ?3
