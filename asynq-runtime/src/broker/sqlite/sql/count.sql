-- The numbers of tasks per state, and the counters per day.

-- name: tally
-- Adds to the number of tasks in a state. ?1 q, ?2 state, ?3 delta.
INSERT INTO main.tally(q, state, n) VALUES (?1, ?2, ?3)
ON CONFLICT(q, state) DO UPDATE SET n = n + excluded.n;

-- name: stat
-- Adds to a day's counters. ?1 q, ?2 day (-1 = all time), ?3 processed, ?4 failed.
INSERT INTO main.stat(q, day, processed, failed) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT(q, day) DO UPDATE SET processed = processed + excluded.processed, failed = failed + excluded.failed;

-- name: forget_days
-- Forgets counters of days long past. ?1 q, ?2 first day to keep.
DELETE FROM main.stat WHERE q = ?1 AND day >= 0 AND day < ?2;

-- name: with_old_days
-- The queues that have counters of days long past. ?1 first day to keep. Rows: name.
SELECT name FROM main.queue AS queue
WHERE EXISTS (SELECT 1 FROM main.stat AS s WHERE s.q = queue.q AND s.day >= 0 AND s.day < ?1);
