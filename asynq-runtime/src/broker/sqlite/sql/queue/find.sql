-- The number of a queue. ?1 name. Row: q.
SELECT q FROM main.queue WHERE name = ?1
