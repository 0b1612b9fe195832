-- Bodies of tasks: message, result and checkpoint.

-- name: delete
-- Deletes the body of a task. ?1 seq.
DELETE FROM main.body WHERE seq = ?1;

-- name: message
-- The message of a task. ?1 seq. Row: message.
SELECT msg FROM main.body WHERE seq = ?1;

-- name: shown
-- The parts of a body that lists show. ?1 seq. Row: message, result or null.
SELECT msg, result FROM main.body WHERE seq = ?1;

-- name: set_message
-- Sets the message of a task. ?1 seq, ?2 message.
UPDATE main.body SET msg = ?2 WHERE seq = ?1;

-- name: store
-- Stores a message as the whole body of a task, in place of another one, if there is one: that of the task that is replaced, or one
-- whose task was deleted by hand. ?1 seq, ?2 message.
INSERT INTO main.body(seq, msg) VALUES (?1, ?2)
ON CONFLICT(seq) DO UPDATE SET msg = excluded.msg, result = NULL, checkpoint = NULL;

-- name: set_result
-- Stores a result. ?1 seq, ?2 result or null.
UPDATE main.body SET result = ?2 WHERE seq = ?1;

-- name: checkpoint
-- How far the runs of a task got. ?1 seq. Row: checkpoint or null.
SELECT checkpoint FROM main.body WHERE seq = ?1;

-- name: set_checkpoint
-- Stores how far a run got. ?1 seq, ?2 checkpoint.
UPDATE main.body SET checkpoint = ?2 WHERE seq = ?1;

-- name: forget_checkpoint
-- Forgets how far the runs of a task got. ?1 seq.
UPDATE main.body SET checkpoint = NULL WHERE seq = ?1 AND checkpoint IS NOT NULL;
