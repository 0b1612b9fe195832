-- One group with waiting tasks. ?1 queue name, ?2 its name. Row: as groups/list; none if no task waits there.
SELECT t.grp, count(*), min(t.at) FROM main.task AS t INDEXED BY task_group
WHERE t.q = (SELECT q FROM main.queue WHERE name = ?1) AND t.grp = ?2 AND t.state = 7 /* aggregating */ AND t.batch IS NULL
GROUP BY t.grp
