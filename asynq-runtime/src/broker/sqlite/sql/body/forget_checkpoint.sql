-- Forgets how far the runs of a task got. ?1 seq.
UPDATE main.body SET checkpoint = NULL WHERE seq = ?1 AND checkpoint IS NOT NULL
