-- Gives a token out. ?1 scope, ?2 task, ?3 until.
INSERT INTO main.token(scope, id, until) VALUES (?1, ?2, ?3)
