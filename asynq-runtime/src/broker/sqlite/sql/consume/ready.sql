-- The queues of a list that are not paused and have a pending task, in their order. ?1 names as an array of JSON, ?2 whether
-- quarantined tasks count, which the next crash would archive, ?3 crash limit of a task that has none of its own in field 1
-- of its extra. Rows: q, name.
SELECT queue.q, queue.name
FROM json_each(?1) AS wanted CROSS JOIN main.queue AS queue ON queue.name = wanted.value
WHERE queue.paused_at IS NULL AND EXISTS (
  SELECT 1 FROM main.task AS t WHERE t.q = queue.q AND t.state = 2 /* pending */ AND (?2 OR t.crashes = 0 OR t.crashes + 1 IS NOT
    CASE substr(t.extra, 1, 1) WHEN x'08' THEN unicode(CAST(substr(t.extra, 2, 1) AS TEXT)) ELSE ?3 END))
