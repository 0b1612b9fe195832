-- Unique locks; docs/design/fence.md#unique-locks lists every place that releases one.

-- name: take
-- Takes a unique lock that is free, whose time has passed, or that an earlier task left behind: a task of this id, or one that
-- is gone. One change means that the task holds it.
-- ?1 q, ?2 key, ?3 id, ?4 until, ?5 now.
INSERT INTO main.ulock AS held(q, key, id, until) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT(q, key) DO UPDATE SET id = excluded.id, until = excluded.until WHERE until <= ?5 OR id = excluded.id
  OR NOT EXISTS (SELECT 1 FROM main.task AS holder WHERE holder.q = ?1 AND holder.id = held.id);

-- name: transfer
-- Gives a unique lock to a task, with a new time. ?1 q, ?2 key, ?3 id, ?4 until.
UPDATE main.ulock SET id = ?3, until = ?4 WHERE q = ?1 AND key = ?2;

-- name: page
-- Unique locks that are held, by key. ?1 q, ?2 key behind which to begin, as bytes, ?3 now, ?4 how many.
-- Rows: key, id, until, state of the task of that id or null.
SELECT l.key, l.id, l.until, (SELECT t.state FROM main.task AS t WHERE t.q = l.q AND t.id = l.id)
FROM main.ulock AS l WHERE l.q = ?1 AND l.key > CAST(?2 AS TEXT) AND l.until > ?3 ORDER BY l.key LIMIT ?4;

-- name: holder
-- The holder of a unique lock. ?1 q, ?2 key. Row: id.
SELECT id FROM main.ulock WHERE q = ?1 AND key = ?2;

-- name: held
-- The holder of a unique lock that a task cannot take, as `take` has it. ?1 q, ?2 key, ?3 id, ?4 now.
-- Row: id; none otherwise, nor where the id of the task itself is taken, which is another refusal.
SELECT held.id FROM main.ulock AS held
WHERE held.q = ?1 AND held.key = ?2 AND held.until > ?4
  AND EXISTS (SELECT 1 FROM main.task AS t INDEXED BY task_id WHERE t.q = ?1 AND t.id = held.id)
  AND NOT EXISTS (SELECT 1 FROM main.task AS t WHERE t.q = ?1 AND t.id = ?3);

-- name: release
-- Frees a unique lock, only its owner's. ?1 q, ?2 key, ?3 id.
DELETE FROM main.ulock WHERE q = ?1 AND key = ?2 AND id = ?3;

-- name: release_of
-- Frees the unique lock that this task holds, whatever bytes its texts have. ?1 seq.
DELETE FROM main.ulock WHERE (q, key, id) = (SELECT q, uniq, id FROM main.task WHERE seq = ?1);

-- name: extend
-- Extends a unique lock that the running task still holds, or takes it again if it has ended and is free.
-- ?1 seq, ?2 server, ?3 run, ?4 id, ?5 key, ?6 until, ?7 now.
INSERT INTO main.ulock AS held(q, key, id, until)
SELECT q, uniq, id, ?6 FROM main.task
WHERE seq = ?1 AND state = 1 /* active */ AND server = ?2 AND run = ?3 AND id = ?4 AND uniq = ?5
ON CONFLICT(q, key) DO UPDATE SET id = excluded.id, until = excluded.until
WHERE held.until <= ?7 OR held.id = excluded.id AND held.until < excluded.until;
