-- A page of the tasks that wait in one group. ?1 q, ?2 group, ?3 size, ?4 and ?5 `at` and `seq` of the first task, of
-- inspect/page_group_start. Rows: a task as in inspect/task.
SELECT t.state, t.at, t.id, t.crashes, t.retried, t.err, t.failed_at, t.retention, t.progress, t.progress_note, b.msg, b.result, t.extra
FROM main.task AS t INDEXED BY task_group JOIN main.body AS b ON b.seq = t.seq
WHERE t.q = ?1 AND t.grp = ?2 AND t.state = 7 /* aggregating */ AND t.batch IS NULL AND (t.at, t.seq) >= (?4, ?5)
ORDER BY t.at, t.seq LIMIT ?3
