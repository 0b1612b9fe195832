-- Whether a number of tasks wait in a group. ?1 q, ?2 group, ?3 the number less one. A row if so.
SELECT 1 FROM main.task AS t INDEXED BY task_group
WHERE t.q = ?1 AND t.grp = ?2 AND t.state = 7 /* aggregating */ AND t.batch IS NULL LIMIT 1 OFFSET ?3
