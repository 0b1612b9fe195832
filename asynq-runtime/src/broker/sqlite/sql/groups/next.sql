-- The next group with waiting tasks, by name. ?1 q, ?2 after this name. Row: name; none at the end.
SELECT t.grp FROM main.task AS t INDEXED BY task_group
WHERE t.q = ?1 AND t.grp > ?2 AND t.state = 7 /* aggregating */ AND t.batch IS NULL ORDER BY t.grp LIMIT 1
