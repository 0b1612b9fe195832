-- Rows of tasks.

-- name: delete
-- Deletes a task; `delete` of body.sql deletes its body. ?1 seq.
DELETE FROM main.task WHERE seq = ?1;
