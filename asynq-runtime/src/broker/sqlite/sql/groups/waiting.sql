-- The tasks of a group in the order in which they joined it. ?1 q, ?2 group, ?3 how many.
-- Rows: seq, id, uniq, extra, retried, err, failed_at, message or null.
SELECT t.seq, t.id, t.uniq, t.extra, t.retried, t.err, t.failed_at, b.msg
FROM main.task AS t INDEXED BY task_group LEFT JOIN main.body AS b ON b.seq = t.seq
WHERE t.q = ?1 AND t.grp = ?2 AND t.state = 7 /* aggregating */ AND t.batch IS NULL ORDER BY t.at, t.seq LIMIT ?3
