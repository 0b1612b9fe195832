-- A queue that runs and has something pending that is not quarantined. ?1 name, ?2 crash limit of a task that has none of its own
-- in field 1 of its extra. Row: q; none otherwise.
SELECT queue.q FROM main.queue AS queue
WHERE queue.name = ?1 AND queue.paused_at IS NULL
  AND EXISTS (SELECT 1 FROM main.task AS t WHERE t.q = queue.q AND t.state = 2 AND (t.crashes = 0 OR t.crashes + 1 IS NOT
    CASE substr(t.extra, 1, 1) WHEN x'08' THEN unicode(CAST(substr(t.extra, 2, 1) AS TEXT)) ELSE ?2 END))
