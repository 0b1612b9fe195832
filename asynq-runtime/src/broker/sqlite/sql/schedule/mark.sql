-- Marks a tick. ?1 queue, ?2 entry, ?3 the tick, ?4 until.
INSERT INTO main.tick(queue, entry, at, until) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT(queue, entry, at) DO UPDATE SET until = excluded.until
