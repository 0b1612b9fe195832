-- Replaces the body of a task by a message alone. ?1 seq, ?2 message.
INSERT INTO main.body(seq, msg) VALUES (?1, ?2)
ON CONFLICT(seq) DO UPDATE SET msg = excluded.msg, result = NULL, checkpoint = NULL
