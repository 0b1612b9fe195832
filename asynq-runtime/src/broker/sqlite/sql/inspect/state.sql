-- The state of a task, for a waiter. ?1 queue name, ?2 id. Row: state, extra.
SELECT state, extra FROM main.task WHERE q = (SELECT q FROM main.queue WHERE name = ?1) AND id = ?2
