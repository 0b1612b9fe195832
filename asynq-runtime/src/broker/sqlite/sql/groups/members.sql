-- The tasks of a set in the order in which they joined their group. ?1 q, ?2 set. Rows: seq, id, uniq, extra.
SELECT t.seq, t.id, t.uniq, t.extra FROM main.task AS t INDEXED BY task_batch
WHERE t.q = ?1 AND t.batch = ?2 ORDER BY t.at, t.seq
