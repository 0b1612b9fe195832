-- Rows of tasks.

-- name: find
-- One task. ?1 q, ?2 id. Row: seq, id, state, at, uniq, extra, 1 if it is in a set, retried, retention in seconds, server,
-- 1 if it is in a group.
SELECT seq, id, state, at, uniq, extra, batch IS NOT NULL, retried, retention, server, grp IS NOT NULL
FROM main.task WHERE q = ?1 AND id = ?2;

-- name: run
-- Makes a task pending, on request or alone out of a set; it has left its group for good, with a new count of crashes.
-- ?1 seq, ?2 position in the queue, ?3 now.
UPDATE main.task SET state = 2 /* pending */, at = ?2, since = ?3, crashes = 0, grp = NULL, batch = NULL WHERE seq = ?1;

-- name: delete
-- Deletes a task; `delete` of body.sql deletes its body. ?1 seq.
DELETE FROM main.task WHERE seq = ?1;

-- name: set_extra
-- Sets the extra facts of a task, which say among others whether its run is its last because it was replaced. ?1 seq, ?2 extra.
UPDATE main.task SET extra = ?2 WHERE seq = ?1;
