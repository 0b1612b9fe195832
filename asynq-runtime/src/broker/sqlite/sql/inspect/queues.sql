-- Every queue that ever had a task, by name. Rows: name.
SELECT queue.name FROM main.queue AS queue WHERE EXISTS (SELECT 1 FROM main.tally AS c WHERE c.q = queue.q) ORDER BY queue.name
