-- When the first lease of a queue's active tasks passes. ?1 q. Row: at or null.
SELECT min(at) FROM main.task WHERE q = ?1 AND state = 1 /* active */
