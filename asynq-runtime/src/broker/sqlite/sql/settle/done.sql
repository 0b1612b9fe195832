-- Deletes a task without a unique lock if a run still holds it: fence and outcome in one, for the most common of all ends.
-- ?1 row, ?2 server, ?3 token, ?4 id, ?5 number of the queue.
DELETE FROM main.task WHERE seq = ?1 AND state = 1 /* active */ AND server = ?2 AND run = ?3 AND id = ?4 AND q = ?5 AND uniq IS NULL
