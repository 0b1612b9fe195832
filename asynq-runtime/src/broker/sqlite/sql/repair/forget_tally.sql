-- Forgets the numbers of tasks of a queue. ?1 q.
DELETE FROM main.tally WHERE q = ?1
