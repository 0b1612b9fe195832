-- Gives a token to a task, or sets a new end of the token that the task has. ?1 scope, ?2 task, ?3 until.
INSERT INTO main.token(scope, id, until) VALUES (?1, ?2, ?3)
ON CONFLICT(scope, id) DO UPDATE SET until = excluded.until
