-- Tasks of one state, by time; of aggregating tasks only those that wait in their groups.
-- ?1 q, ?2 state, ?3 how many. Rows: as repair/find.
SELECT t.seq, t.id, t.state, t.at, t.uniq, t.extra, t.batch IS NOT NULL, t.retried, t.retention FROM main.task AS t
WHERE t.q = ?1 AND t.state = ?2 AND (?2 <> 7 /* aggregating */ OR t.batch IS NULL) ORDER BY t.at, t.seq LIMIT ?3
