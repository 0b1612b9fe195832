-- Whether a queue has a task in any state. ?1 q. Row: 1; none otherwise.
SELECT 1 FROM main.task WHERE q = ?1 LIMIT 1
