-- Active tasks whose lease has passed. ?1 q, ?2 now, ?3 how many.
-- Rows: seq, id, run, place in line when it was taken, end of the lease, whether its server is on the list.
SELECT t.seq, t.id, t.run, t.since, t.at, EXISTS (SELECT 1 FROM main.server AS s WHERE s.server = t.server)
FROM main.task AS t WHERE t.q = ?1 AND t.state = 1 /* active */ AND t.at <= ?2 ORDER BY t.at, t.seq LIMIT ?3
