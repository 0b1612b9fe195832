-- Forgets a queue and its pause. ?1 q.
DELETE FROM main.queue WHERE q = ?1
