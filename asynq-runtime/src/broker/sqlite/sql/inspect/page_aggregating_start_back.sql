-- As inspect/page_aggregating_start, counted from the last task: nearer where the page is in the second half. ?1 q,
-- ?2 how many come after. Row: at, seq.
SELECT t.at, t.seq FROM main.task AS t INDEXED BY task_at
WHERE t.q = ?1 AND t.state = 7 /* aggregating */
  AND t.seq NOT IN (SELECT s.seq FROM main.task AS s INDEXED BY task_batch WHERE s.q = ?1 AND s.batch IS NOT NULL)
ORDER BY t.at DESC, t.seq DESC LIMIT 1 OFFSET ?2
