-- The errors of a task's runs.

-- name: last
-- The number of a task's last failure; an attempt that was counted and is not remembered counts. ?1 seq. Row: n.
SELECT max(t.retried, coalesce((SELECT max(f.n) FROM main.failure AS f WHERE f.seq = t.seq), 0))
FROM main.task AS t WHERE t.seq = ?1;

-- name: add
-- Keeps how an attempt failed. ?1 seq, ?2 number, ?3 now, ?4 error.
INSERT INTO main.failure(seq, n, at, error) VALUES (?1, ?2, ?3, ?4);

-- name: long
-- Failures of a task whose text has more bytes. ?1 seq, ?2 bytes. Rows: number, text.
SELECT n, error FROM main.failure WHERE seq = ?1 AND octet_length(error) > ?2;

-- name: cut
-- Replaces the text of a failure by its beginning. ?1 seq, ?2 number, ?3 text.
UPDATE main.failure SET error = ?3 WHERE seq = ?1 AND n = ?2;

-- name: forget
-- Forgets all but the last failures of a task. ?1 seq, ?2 how many to keep.
DELETE FROM main.failure WHERE seq = ?1 AND n <=
  (SELECT f.n FROM main.failure AS f WHERE f.seq = ?1 ORDER BY f.n DESC LIMIT 1 OFFSET ?2);
