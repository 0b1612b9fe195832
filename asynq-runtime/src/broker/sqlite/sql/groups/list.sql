-- Groups with waiting tasks, by name. ?1 queue name, ?2 those after this name, ?3 how many. Rows: name, size, oldest.
SELECT t.grp, count(*), min(t.at) FROM main.task AS t INDEXED BY task_group
WHERE t.q = (SELECT q FROM main.queue WHERE name = ?1) AND t.grp > ?2 AND t.state = 7 /* aggregating */ AND t.batch IS NULL
GROUP BY t.grp ORDER BY t.grp LIMIT ?3
