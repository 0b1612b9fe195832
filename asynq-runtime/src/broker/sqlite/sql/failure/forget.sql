-- Forgets all but the last failures of a task. ?1 seq, ?2 how many to keep.
DELETE FROM main.failure WHERE seq = ?1 AND n <=
  (SELECT f.n FROM main.failure AS f WHERE f.seq = ?1 ORDER BY f.n DESC LIMIT 1 OFFSET ?2)
