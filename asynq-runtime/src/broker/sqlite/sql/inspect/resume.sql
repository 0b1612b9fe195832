-- Resumes a queue; no change if it is not paused. ?1 name.
UPDATE main.queue SET paused_at = NULL WHERE name = ?1 AND paused_at IS NOT NULL
