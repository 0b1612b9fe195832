-- Rows of tasks.

-- name: delete
-- Deletes a task; its body is body/delete. ?1 seq.
DELETE FROM main.task WHERE seq = ?1;
