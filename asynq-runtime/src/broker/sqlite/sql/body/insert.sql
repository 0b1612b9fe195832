-- Stores the body of a task. ?1 seq, ?2 message.
INSERT INTO main.body(seq, msg) VALUES (?1, ?2)
