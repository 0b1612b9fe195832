-- Forgets the counters of a queue. ?1 q.
DELETE FROM main.stat WHERE q = ?1
