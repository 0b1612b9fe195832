-- Takes tasks out of the file to run them (contract: `broker/consume.rs`).
-- Each statement names its index, and a subquery reads what another table has: after an ANALYZE of the application SQLite would read
-- whole tables otherwise (docs/design/sqlite.md#the-log-and-readers).

-- name: ready
-- The queues of a list that are not paused and have a pending task, in their order. ?1 names as an array of JSON, ?2 whether
-- quarantined tasks count, which the next crash would archive or the last has (a function of connection.rs). Rows: q, name.
-- The limit leaves nothing out: with it SQLite looks once for a queue, and not in each place that reads its number.
SELECT found.q, found.name
FROM (SELECT wanted.value AS name,
    (SELECT queue.q FROM main.queue AS queue WHERE queue.name = wanted.value AND queue.paused_at IS NULL) AS q
  FROM json_each(?1) AS wanted LIMIT -1) AS found
WHERE EXISTS (
  SELECT 1 FROM main.task AS t INDEXED BY task_at WHERE t.q = found.q AND t.state = 2 /* pending */
    AND (?2 OR t.crashes = 0 OR NOT asynq_is_quarantined(t.crashes, t.extra)));

-- name: ready_anywhere
-- Every queue that is not paused and has a pending task, found by a step per queue that has tasks at all. ?1 most steps, ?2 as in
-- `ready`. Rows, one per step: q, null behind the last queue that has tasks, and 0 ahead of the first; its name, null
-- if it is paused or has no pending task.
WITH RECURSIVE walk(q) AS (
  VALUES (0)
  UNION ALL
  SELECT (SELECT t.q FROM main.task AS t INDEXED BY task_at WHERE t.q > walk.q ORDER BY t.q LIMIT 1)
  FROM walk WHERE walk.q IS NOT NULL
  LIMIT ?1
)
SELECT walk.q, (SELECT queue.name FROM main.queue AS queue WHERE queue.paused_at IS NULL AND queue.q = (
    SELECT t.q FROM main.task AS t INDEXED BY task_at WHERE t.q = walk.q AND t.state = 2 /* pending */
      AND (?2 OR t.crashes = 0 OR NOT asynq_is_quarantined(t.crashes, t.extra)) LIMIT 1))
FROM walk;

-- name: next
-- The tasks at the head of the queue. ?1 q, ?2 how many, ?3 whether quarantined tasks count, as in `ready`, ?4 whether messages are
-- read. Rows: seq, q, id, crashes, extra, retried, err, failed_at, uniq, pending since, message or null.
SELECT t.seq, t.q, t.id, t.crashes, t.extra, t.retried, t.err, t.failed_at, t.uniq, t.since,
  (SELECT b.msg FROM main.body AS b WHERE ?4 AND b.seq = t.seq)
FROM main.task AS t INDEXED BY task_at
WHERE t.q = ?1 AND t.state = 2 /* pending */ AND (?3 OR t.crashes = 0 OR NOT asynq_is_quarantined(t.crashes, t.extra))
ORDER BY t.at, t.seq LIMIT ?2;

-- name: take
-- Makes a pending task active. Its position in the queue stays in `since`, which recovery orders tasks by.
-- ?1 seq, ?2 end of the lease, ?3 server, ?4 run.
UPDATE main.task SET state = 1 /* active */, since = at, at = ?2, server = ?3, run = ?4, progress = NULL, progress_note = NULL
WHERE seq = ?1;

-- name: again
-- The tasks of an earlier dequeue whose answer was lost. ?1 server, ?2 run. Rows: seq, id, the queue's name.
SELECT t.seq, t.id, (SELECT queue.name FROM main.queue AS queue WHERE queue.q = t.q) AS name
FROM main.task AS t INDEXED BY task_lease
WHERE t.state = 1 /* active */ AND t.server = ?1 AND t.run = ?2 AND name IS NOT NULL ORDER BY t.since, t.seq;

-- name: set_aside
-- Archives a pending or aggregating task that can never run. ?1 seq, ?2 now, ?3 the reason.
UPDATE main.task SET state = 5 /* archived */, at = ?2, err = ?3, failed_at = ?2 WHERE seq = ?1;

-- name: rename
-- Gives a task another id and no lock. ?1 seq, ?2 id.
UPDATE main.task SET id = ?2, uniq = NULL WHERE seq = ?1;
