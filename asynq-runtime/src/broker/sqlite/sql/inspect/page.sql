-- A page of one state, by time. ?1 queue name, ?2 state, ?3 size, ?4 offset. Rows: a task as in inspect/task.
SELECT t.state, t.at, t.id, t.crashes, t.retried, t.err, t.failed_at, t.retention, t.progress, t.progress_note, b.msg, b.result
FROM main.task AS t JOIN main.body AS b ON b.seq = t.seq
WHERE t.q = (SELECT q FROM main.queue WHERE name = ?1) AND t.state = ?2 ORDER BY t.at, t.seq LIMIT ?3 OFFSET ?4
