-- Tasks that wait in a group, the longest waiting first. ?1 q, ?2 group, ?3 how many. Rows: as repair/find.
SELECT t.seq, t.id, t.state, t.at, t.uniq, t.extra, 0, t.retried, t.retention FROM main.task AS t INDEXED BY task_group
WHERE t.q = ?1 AND t.grp = ?2 AND t.state = 7 /* aggregating */ AND t.batch IS NULL ORDER BY t.at, t.seq LIMIT ?3
