-- Counters by day. ?1 queue name, ?2 first day, ?3 last day. Rows: day, processed, failed.
SELECT s.day, s.processed, s.failed FROM main.stat AS s
WHERE s.q = (SELECT q FROM main.queue WHERE name = ?1) AND s.day BETWEEN ?2 AND ?3
