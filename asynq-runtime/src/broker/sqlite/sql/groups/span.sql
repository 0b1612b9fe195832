-- When the first and the last of a group's tasks joined it. ?1 q, ?2 group. Row: first, last; both null if none waits.
SELECT
  (SELECT min(t.at) FROM main.task AS t INDEXED BY task_group
   WHERE t.q = ?1 AND t.grp = ?2 AND t.state = 7 /* aggregating */ AND t.batch IS NULL),
  (SELECT max(t.at) FROM main.task AS t INDEXED BY task_group
   WHERE t.q = ?1 AND t.grp = ?2 AND t.state = 7 /* aggregating */ AND t.batch IS NULL)
