-- The tasks whose turn it is. ?1 q, ?2 how many, ?3 whether suspects too (a worker died while it ran them).
-- Rows: seq, id, crashes, extra, retried, err, failed_at, uniq, message or null, pending since.
SELECT t.seq, t.id, t.crashes, t.extra, t.retried, t.err, t.failed_at, t.uniq, b.msg, t.since
FROM main.task AS t LEFT JOIN main.body AS b ON b.seq = t.seq
WHERE t.q = ?1 AND t.state = 2 AND (?3 OR t.crashes = 0) ORDER BY t.at, t.seq LIMIT ?2
