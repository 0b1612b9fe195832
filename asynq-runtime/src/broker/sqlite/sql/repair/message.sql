-- The message of a task. ?1 seq. Row: message.
SELECT msg FROM main.body WHERE seq = ?1
