-- One task. ?1 queue name, ?2 id.
-- Row: state, at, id, crashes, retried, err, failed_at, retention, progress, progress_note, message, result, extra.
SELECT t.state, t.at, t.id, t.crashes, t.retried, t.err, t.failed_at, t.retention, t.progress, t.progress_note, b.msg, b.result, t.extra
FROM main.task AS t JOIN main.body AS b ON b.seq = t.seq
WHERE t.q = (SELECT q FROM main.queue WHERE name = ?1) AND t.id = ?2
