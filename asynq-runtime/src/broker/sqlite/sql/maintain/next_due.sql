-- When the next task of a queue is due. ?1 name. Row: at or null.
SELECT min(at) FROM (
  SELECT min(t.at) AS at FROM main.task AS t WHERE t.q = (SELECT q FROM main.queue WHERE name = ?1) AND t.state = 3 /* scheduled */
  UNION ALL
  SELECT min(t.at) FROM main.task AS t WHERE t.q = (SELECT q FROM main.queue WHERE name = ?1) AND t.state = 4 /* retry */)
