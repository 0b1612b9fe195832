-- A queue that runs and has something pending. ?1 name. Row: q; none otherwise.
SELECT queue.q FROM main.queue AS queue
WHERE queue.name = ?1 AND queue.paused_at IS NULL
  AND EXISTS (SELECT 1 FROM main.task AS t WHERE t.q = queue.q AND t.state = 2)
