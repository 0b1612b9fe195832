-- Deletes the body of a task. ?1 seq.
DELETE FROM main.body WHERE seq = ?1
