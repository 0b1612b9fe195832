-- Lets dequeues go on; no change if they do. ?1 name.
UPDATE main.queue SET paused_at = NULL WHERE name = ?1 AND paused_at IS NOT NULL
