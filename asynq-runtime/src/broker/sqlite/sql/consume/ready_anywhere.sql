-- Every queue that is not paused and has a pending task, found by a step per queue that has tasks at all. ?1 most steps, ?2 and
-- ?3 as in `ready`. Rows, one per step: q, null behind the last queue that has tasks, and 0 ahead of the first; its name, null
-- if it is paused or has no pending task.
WITH RECURSIVE walk(q) AS (
  VALUES (0)
  UNION ALL
  SELECT (SELECT t.q FROM main.task AS t INDEXED BY task_at WHERE t.q > walk.q ORDER BY t.q LIMIT 1)
  FROM walk WHERE walk.q IS NOT NULL
  LIMIT ?1
)
SELECT walk.q, queue.name
FROM walk LEFT JOIN main.queue AS queue ON queue.q = walk.q AND queue.paused_at IS NULL AND EXISTS (
  SELECT 1 FROM main.task AS t WHERE t.q = walk.q AND t.state = 2 /* pending */ AND (?2 OR t.crashes = 0 OR t.crashes + 1 IS NOT
    CASE substr(t.extra, 1, 1) WHEN x'08' THEN unicode(CAST(substr(t.extra, 2, 1) AS TEXT)) ELSE ?3 END))
