-- Tasks at the front of a state whose message is lost. ?1 q, ?2 state, ?3 how many to look at. Rows: seq, id, uniq.
SELECT front.seq, front.id, front.uniq
FROM (SELECT t.seq, t.id, t.uniq FROM main.task AS t WHERE t.q = ?1 AND t.state = ?2 ORDER BY t.at, t.seq LIMIT ?3) AS front
WHERE NOT EXISTS (SELECT 1 FROM main.body AS b WHERE b.seq = front.seq)
