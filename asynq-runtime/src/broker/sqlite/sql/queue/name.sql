-- The name of a queue. ?1 q. Row: name.
SELECT name FROM main.queue WHERE q = ?1
