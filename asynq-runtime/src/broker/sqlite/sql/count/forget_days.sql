-- Forgets counters of days long past. ?1 q, ?2 first day to keep.
DELETE FROM main.stat WHERE q = ?1 AND day >= 0 AND day < ?2
