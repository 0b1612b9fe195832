-- Defers a task that no server runs any more. `last` stays: the run that lost the task left no receipt.
-- ?1 seq, ?2 due, ?3 error, ?4 now.
UPDATE main.task SET state = 4 /* retry */, at = ?2, server = 0, run = 0, crashes = 0, retried = retried + 1, err = ?3,
  failed_at = ?4
WHERE seq = ?1
