-- Keeps how an attempt failed. ?1 seq, ?2 number, ?3 now, ?4 error.
INSERT INTO main.failure(seq, n, at, error) VALUES (?1, ?2, ?3, ?4)
