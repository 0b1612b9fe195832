-- The tasks of an earlier dequeue whose answer was lost. ?1 server, ?2 run.
-- Rows: as consume/next, then the queue's name.
SELECT t.seq, t.id, t.crashes, t.extra, t.retried, t.err, t.failed_at, t.uniq, b.msg, queue.name
FROM main.task AS t INDEXED BY task_lease
JOIN main.body AS b ON b.seq = t.seq
JOIN main.queue AS queue ON queue.q = t.q
WHERE t.state = 1 /* active */ AND t.server = ?1 AND t.run = ?2 ORDER BY t.since, t.seq
