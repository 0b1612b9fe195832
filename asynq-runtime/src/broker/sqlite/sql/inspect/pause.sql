-- Stops dequeues from a queue, which need not exist yet; no change if they are stopped. ?1 name, ?2 now.
INSERT INTO main.queue(name, paused_at) VALUES (?1, ?2)
ON CONFLICT(name) DO UPDATE SET paused_at = excluded.paused_at WHERE paused_at IS NULL
