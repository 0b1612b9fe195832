-- Stores a result. ?1 seq, ?2 result.
UPDATE main.body SET result = ?2 WHERE seq = ?1
