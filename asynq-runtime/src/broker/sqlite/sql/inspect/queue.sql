-- A queue. ?1 name. Row: q, paused_at.
SELECT q, paused_at FROM main.queue WHERE name = ?1
