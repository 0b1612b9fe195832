-- Tasks per state; in groups only tasks that wait, not tasks that were taken out as a set. ?1 q. Rows: state, n.
SELECT c.state, c.n - CASE c.state WHEN 7 /* aggregating */ THEN
  (SELECT count(*) FROM main.task AS t INDEXED BY task_batch WHERE t.q = ?1 AND t.batch IS NOT NULL) ELSE 0 END
FROM main.tally AS c WHERE c.q = ?1
