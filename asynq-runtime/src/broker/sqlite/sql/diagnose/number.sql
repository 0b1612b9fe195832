-- How many tasks there are in a state. ?1 q, ?2 state, ?3 where to stop counting. Row: as the tally says, as counted.
SELECT coalesce((SELECT c.n FROM main.tally AS c WHERE c.q = ?1 AND c.state = ?2), 0),
  (SELECT count(*) FROM (SELECT 1 FROM main.task AS t WHERE t.q = ?1 AND t.state = ?2 LIMIT ?3))
