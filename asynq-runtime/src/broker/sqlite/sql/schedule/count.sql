-- Adds to the number of events in the history of an entry, and renews the history. ?1 entry, ?2 how many, ?3 until.
-- Row: how many there are.
INSERT INTO main.history(entry, n, until) VALUES (?1, ?2, ?3)
ON CONFLICT(entry) DO UPDATE SET n = n + excluded.n, until = excluded.until RETURNING n
