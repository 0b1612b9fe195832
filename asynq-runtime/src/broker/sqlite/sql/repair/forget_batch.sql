-- Forgets the sets of a queue. ?1 q.
DELETE FROM main.batch WHERE q = ?1
