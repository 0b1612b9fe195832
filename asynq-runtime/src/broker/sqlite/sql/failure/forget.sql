-- Forgets old failures of a task. ?1 seq, ?2 the last number to forget.
DELETE FROM main.failure WHERE seq = ?1 AND n <= ?2
