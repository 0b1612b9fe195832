-- Adds to the number of tasks in a state. ?1 q, ?2 state, ?3 delta.
INSERT INTO main.tally(q, state, n) VALUES (?1, ?2, ?3)
ON CONFLICT(q, state) DO UPDATE SET n = n + excluded.n
