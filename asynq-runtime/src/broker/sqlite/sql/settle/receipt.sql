-- The receipt of a task that a run does not hold any more. ?1 queue name, ?2 id.
-- Row: seq, the run that settled it last; none if there is no such task.
SELECT t.seq, t.last FROM main.queue AS queue JOIN main.task AS t ON t.q = queue.q
WHERE queue.name = ?1 AND t.id = ?2
