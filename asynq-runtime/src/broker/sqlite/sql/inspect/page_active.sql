-- A page of the running tasks, oldest run first (extending a lease moves `at`, so the run decides). The tasks of the page are
-- found before their messages are read. ?1 q, ?2 size, ?3 offset. Rows: a task as in inspect/task.
SELECT t.state, t.at, t.id, t.crashes, t.retried, t.err, t.failed_at, t.retention, t.progress, t.progress_note, b.msg, b.result, t.extra
FROM (SELECT r.seq FROM main.task AS r WHERE r.q = ?1 AND r.state = 1 /* active */ ORDER BY r.run, r.seq LIMIT ?2 OFFSET ?3) AS p
JOIN main.task AS t ON t.seq = p.seq
JOIN main.body AS b ON b.seq = t.seq
ORDER BY t.run, t.seq
