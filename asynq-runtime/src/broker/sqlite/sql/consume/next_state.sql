-- The first state from a queue and a state on that has tasks. ?1 q, ?2 state. Row: q, state; none behind the last.
SELECT t.q, t.state FROM main.task AS t INDEXED BY task_at WHERE (t.q, t.state) >= (?1, ?2)
ORDER BY t.q, t.state LIMIT 1
