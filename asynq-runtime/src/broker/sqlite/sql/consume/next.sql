-- The next tasks in line. ?1 q, ?2 how many, ?3 whether quarantined tasks count, which the next crash would archive,
-- ?4 crash limit of a task that has none of its own in field 1 of its extra.
-- Rows: seq, id, crashes, extra, retried, err, failed_at, uniq, message or null, pending since.
SELECT t.seq, t.id, t.crashes, t.extra, t.retried, t.err, t.failed_at, t.uniq, b.msg, t.since
FROM main.task AS t LEFT JOIN main.body AS b ON b.seq = t.seq
WHERE t.q = ?1 AND t.state = 2 /* pending */   AND (?3 OR t.crashes = 0 OR t.crashes + 1 IS NOT
    CASE substr(t.extra, 1, 1) WHEN x'08' THEN unicode(CAST(substr(t.extra, 2, 1) AS TEXT)) ELSE ?4 END)
ORDER BY t.at, t.seq LIMIT ?2
