-- Changes tasks and queues on request (contract: `broker/repair.rs`).

-- name: in_state
-- Tasks of one state, by time; of aggregating tasks only those that wait in their groups.
-- ?1 q, ?2 state, ?3 how many. Rows: as `find` of task.sql.
SELECT t.seq, t.id, t.state, t.at, t.uniq, t.extra, t.batch IS NOT NULL, t.retried, t.retention, t.server, t.grp IS NOT NULL
FROM main.task AS t WHERE t.q = ?1 AND t.state = ?2 AND (?2 <> 7 /* aggregating */ OR t.batch IS NULL) ORDER BY t.at, t.seq LIMIT ?3;

-- name: in_group
-- Tasks that wait in a group, the longest waiting first. ?1 q, ?2 group, ?3 how many. Rows: as `find` of task.sql.
SELECT t.seq, t.id, t.state, t.at, t.uniq, t.extra, 0, t.retried, t.retention, t.server, 1 FROM main.task AS t INDEXED BY task_group
WHERE t.q = ?1 AND t.grp = ?2 AND t.state = 7 /* aggregating */ AND t.batch IS NULL ORDER BY t.at, t.seq LIMIT ?3;

-- name: archive
-- Archives a task as it is. ?1 seq, ?2 now.
UPDATE main.task SET state = 5 /* archived */, at = ?2 WHERE seq = ?1;

-- name: move
-- Puts a task into another queue. Its body and failures know it by its row, and stay. A pending task waits in its new
-- queue from now on. ?1 seq, ?2 q, ?3 at, ?4 uniq, ?5 now.
UPDATE main.task SET q = ?2, at = ?3, uniq = ?4, since = ?5 WHERE seq = ?1;

-- name: set_lock
-- Sets the unique lock of a task. ?1 seq, ?2 key.
UPDATE main.task SET uniq = ?2 WHERE seq = ?1;

-- name: lock_until
-- Until when a task holds a unique lock. ?1 q, ?2 key, ?3 id, ?4 now. Row: until; none if it does not hold it.
SELECT until FROM main.ulock WHERE q = ?1 AND key = ?2 AND id = ?3 AND until > ?4;

-- name: unlock
-- Frees a unique lock for a person (contract Repair::release_lock). ?1 q, ?2 key, ?3 id of its holder, ?4 whether only if the
-- holder does not exist.
DELETE FROM main.ulock WHERE q = ?1 AND key = ?2 AND id = ?3
  AND NOT (?4 AND EXISTS (SELECT 1 FROM main.task AS t WHERE t.q = ?1 AND t.id = ?3));

-- name: orphan_retry
-- Defers a task that no server runs any more. `last` stays: the run that lost the task left no receipt.
-- ?1 seq, ?2 due, ?3 error, ?4 now.
UPDATE main.task SET state = 4 /* retry */, at = ?2, server = 0, run = 0, crashes = 0, retried = retried + 1, err = ?3,
  failed_at = ?4
WHERE seq = ?1;

-- name: orphan_archive
-- Archives a task that no server runs any more. `last` stays: the run that lost the task left no receipt.
-- ?1 seq, ?2 now, ?3 error.
UPDATE main.task SET state = 5 /* archived */, at = ?2, server = 0, run = 0, crashes = 0, err = ?3, failed_at = ?2 WHERE seq = ?1;

-- name: has_tasks
-- Whether a queue has a task in any state. ?1 q. Row: 1; none otherwise.
SELECT 1 FROM main.task WHERE q = ?1 LIMIT 1;

-- name: forget_ulock
-- Forgets the unique locks of a queue. ?1 q.
DELETE FROM main.ulock WHERE q = ?1;

-- name: forget_stat
-- Forgets the counters of a queue. ?1 q.
DELETE FROM main.stat WHERE q = ?1;

-- name: forget_tally
-- Forgets the numbers of tasks of a queue. ?1 q.
DELETE FROM main.tally WHERE q = ?1;

-- name: forget_batch
-- Forgets the sets of a queue. ?1 q.
DELETE FROM main.batch INDEXED BY batch_deadline WHERE q = ?1;

-- name: forget_queue
-- Forgets a queue and its pause. ?1 q.
DELETE FROM main.queue WHERE q = ?1;
