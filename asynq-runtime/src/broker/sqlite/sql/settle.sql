-- Stores the outcomes of runs (contract: `broker/settle.rs`).
-- A task that is not active has no `server` and no `run`: the state alone fences the run that ended, and its long number is in `last`.

-- name: done
-- Deletes a task without a unique lock if a run still holds it: fence and outcome in one, for the most common of all ends.
-- ?1 row, ?2 server, ?3 token, ?4 id, ?5 number of the queue.
DELETE FROM main.task WHERE seq = ?1 AND state = 1 /* active */ AND server = ?2 AND run = ?3 AND id = ?4 AND q = ?5 AND uniq IS NULL;

-- name: held
-- A task, if a run still holds it. ?1 seq, ?2 server, ?3 run, ?4 id. Row: q, uniq, extra.
SELECT q, uniq, extra FROM main.task WHERE seq = ?1 AND state = 1 /* active */ AND server = ?2 AND run = ?3 AND id = ?4;

-- name: receipt
-- The receipt of a task that a run does not hold any more. ?1 queue name, ?2 id.
-- Row: seq, the run that settled it last; none if there is no such task.
SELECT t.seq, t.last FROM main.task AS t
WHERE t.q = (SELECT q FROM main.queue WHERE name = ?1) AND t.id = ?2;

-- name: complete
-- Completes a running task. ?1 seq, ?2 expiry, ?3 retention in seconds, ?4 extra or null where it stays as it is.
UPDATE main.task SET state = 6 /* completed */, at = ?2, retention = ?3, last = run, server = 0, run = 0, crashes = 0, extra = coalesce(?4, extra)
WHERE seq = ?1;

-- name: retry
-- Defers a running task. ?1 seq, ?2 due, ?3 1 if it spends a retry, ?4 error or null, ?5 now, ?6 extra, ?7 0 if the run did not begin:
-- the crashes stay.
UPDATE main.task SET state = 4 /* retry */, at = ?2, last = run, server = 0, run = 0, crashes = iif(?7, 0, crashes), retried = retried + ?3,
  err = coalesce(?4, err), failed_at = CASE WHEN ?4 IS NULL THEN failed_at ELSE ?5 END, extra = ?6
WHERE seq = ?1;

-- name: archive
-- Archives a running task. ?1 seq, ?2 now, ?3 error, ?4 extra.
UPDATE main.task SET state = 5 /* archived */, at = ?2, last = run, server = 0, run = 0, crashes = 0, err = ?3, failed_at = ?2, extra = ?4
WHERE seq = ?1;

-- name: requeue
-- Requeues a task as if it had not been taken. ?1 seq, ?2 position in the queue, ?3 now.
UPDATE main.task SET state = 2 /* pending */, at = ?2, since = ?3, last = run, server = 0, run = 0 WHERE seq = ?1;

-- name: progress
-- Shows how far a run is. ?1 seq, ?2 fraction, ?3 note.
UPDATE main.task SET progress = ?2, progress_note = ?3 WHERE seq = ?1;
