-- Forgets the unique locks of a queue. ?1 q.
DELETE FROM main.ulock WHERE q = ?1
