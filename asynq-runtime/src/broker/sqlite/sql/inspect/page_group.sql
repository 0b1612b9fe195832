-- A page of the tasks that wait in one group. ?1 queue name, ?2 group, ?3 size, ?4 offset. Rows: a task as in inspect/task.
SELECT t.state, t.at, t.id, t.crashes, t.retried, t.err, t.failed_at, t.retention, t.progress, t.progress_note, b.msg, b.result
FROM main.task AS t INDEXED BY task_group JOIN main.body AS b ON b.seq = t.seq
WHERE t.q = (SELECT q FROM main.queue WHERE name = ?1) AND t.grp = ?2 AND t.state = 7 AND t.batch IS NULL
ORDER BY t.at, t.seq LIMIT ?3 OFFSET ?4
