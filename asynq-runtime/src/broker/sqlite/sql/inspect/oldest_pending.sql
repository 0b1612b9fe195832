-- Since when the first task in line waits. ?1 q. Row: since.
SELECT since FROM main.task WHERE q = ?1 AND state = 2 /* pending */ ORDER BY at, seq LIMIT 1
