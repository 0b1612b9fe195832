-- Rows of tasks.

-- name: delete
-- Deletes a task; `delete` of body.sql deletes its body. ?1 seq.
DELETE FROM main.task WHERE seq = ?1;

-- name: set_extra
-- Sets the extra facts of a task, which say among others whether its run is its last because it was replaced. ?1 seq, ?2 extra.
UPDATE main.task SET extra = ?2 WHERE seq = ?1;
