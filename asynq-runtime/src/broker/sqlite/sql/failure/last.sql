-- The number of a task's last failure; an attempt that was counted and is not remembered counts. ?1 seq. Row: n.
SELECT max(t.retried, coalesce((SELECT max(f.n) FROM main.failure AS f WHERE f.seq = t.seq), 0))
FROM main.task AS t WHERE t.seq = ?1
