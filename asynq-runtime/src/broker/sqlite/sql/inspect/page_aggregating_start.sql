-- Where a page of inspect/page_aggregating begins, counted from the first task. Tasks that a set has taken out are left out by
-- their number, so that no row is read before the page. ?1 q, ?2 how many come before. Row: at, seq.
SELECT t.at, t.seq FROM main.task AS t INDEXED BY task_at
WHERE t.q = ?1 AND t.state = 7 /* aggregating */
  AND t.seq NOT IN (SELECT s.seq FROM main.task AS s INDEXED BY task_batch WHERE s.q = ?1 AND s.batch IS NOT NULL)
ORDER BY t.at, t.seq LIMIT 1 OFFSET ?2
