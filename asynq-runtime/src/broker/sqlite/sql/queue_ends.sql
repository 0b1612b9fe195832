-- The head and the tail of a queue.

-- name: head
-- The position of the first pending task. ?1 q. Row: at or null.
SELECT min(at) FROM main.task WHERE q = ?1 AND state = 2 /* pending */;

-- name: tail
-- The position of the last pending task. ?1 q. Row: at, and whether the task there has a row behind those of the queue, which is so if it
-- was moved from another queue or inserted by an older program.
SELECT at, seq >= (?1 << 40) + (1 << 40) FROM main.task WHERE q = ?1 AND state = 2 /* pending */ ORDER BY at DESC, seq DESC LIMIT 1;
