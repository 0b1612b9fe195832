-- The number of a task's last failure. ?1 seq. Row: n or null.
SELECT max(n) FROM main.failure WHERE seq = ?1
