-- When the first lease of each queue with active tasks passes. Rows: name of the queue, at.
SELECT queue.name, min(t.at) FROM main.task AS t INDEXED BY task_lease JOIN main.queue AS queue ON queue.q = t.q
WHERE t.state = 1 /* active */ GROUP BY t.q
