-- A page of the tasks that wait in groups, over all groups. ?1 q, ?2 size, ?3 and ?4 `at` and `seq` of the first task, of
-- inspect/page_aggregating_start. Rows: a task as in inspect/task.
SELECT t.state, t.at, t.id, t.crashes, t.retried, t.err, t.failed_at, t.retention, t.progress, t.progress_note, b.msg, b.result, t.extra
FROM main.task AS t INDEXED BY task_at JOIN main.body AS b ON b.seq = t.seq
WHERE t.q = ?1 AND t.state = 7 /* aggregating */ AND t.batch IS NULL AND (t.at, t.seq) >= (?3, ?4) ORDER BY t.at, t.seq LIMIT ?2
