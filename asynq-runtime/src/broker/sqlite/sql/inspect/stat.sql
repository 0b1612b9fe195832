-- A day's counters. ?1 q, ?2 day (-1 = all time). Row: processed, failed.
SELECT processed, failed FROM main.stat WHERE q = ?1 AND day = ?2
