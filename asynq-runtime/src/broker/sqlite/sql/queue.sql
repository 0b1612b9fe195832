-- The numbers that stand for names of queues, and the queues that have anything at all.

-- name: find
-- The number of a queue. ?1 name. Row: q.
SELECT q FROM main.queue WHERE name = ?1;

-- name: add
-- Makes a queue known. ?1 name. No row; the rowid is its number.
INSERT INTO main.queue(name) VALUES (?1);

-- name: with_tasks
-- Every queue that has tasks, found by a step per such queue. ?1 most steps.
-- Rows, one per step: q, null behind the last queue that has tasks, and 0 ahead of the first; its name or null.
WITH RECURSIVE walk(q) AS (
  VALUES (0)
  UNION ALL
  SELECT (SELECT t.q FROM main.task AS t INDEXED BY task_at WHERE t.q > walk.q ORDER BY t.q LIMIT 1)
  FROM walk WHERE walk.q IS NOT NULL
  LIMIT ?1
)
SELECT walk.q, (SELECT queue.name FROM main.queue AS queue WHERE queue.q = walk.q) FROM walk;

-- name: with_sets
-- As `with_tasks`, for queues that have sets of grouped tasks, or receipts of such sets.
WITH RECURSIVE walk(q) AS (
  VALUES (0)
  UNION ALL
  SELECT (SELECT s.q FROM main.batch AS s INDEXED BY batch_deadline WHERE s.q > walk.q ORDER BY s.q LIMIT 1)
  FROM walk WHERE walk.q IS NOT NULL
  LIMIT ?1
)
SELECT walk.q, (SELECT queue.name FROM main.queue AS queue WHERE queue.q = walk.q) FROM walk;
