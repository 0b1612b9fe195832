-- The two ends of a queue's line.

-- name: head
-- The first place in a queue's line. ?1 q. Row: at or null.
SELECT min(at) FROM main.task WHERE q = ?1 AND state = 2 /* pending */;

-- name: tail
-- The last place in a queue's line. ?1 q. Row: at or null.
SELECT max(at) FROM main.task WHERE q = ?1 AND state = 2 /* pending */;
