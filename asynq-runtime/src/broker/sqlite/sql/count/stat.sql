-- Adds to a day's counters. ?1 q, ?2 day (-1 = all time), ?3 processed, ?4 failed.
INSERT INTO main.stat(q, day, processed, failed) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT(q, day) DO UPDATE SET processed = processed + excluded.processed, failed = failed + excluded.failed
