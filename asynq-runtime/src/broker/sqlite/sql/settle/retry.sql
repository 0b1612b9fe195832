-- Defers a running task. ?1 seq, ?2 due, ?3 1 if it spends a retry, ?4 error or null, ?5 now, ?6 extra.
UPDATE main.task SET state = 4 /* retry */, at = ?2, last = run, server = 0, run = 0, crashes = 0, retried = retried + ?3,
  err = coalesce(?4, err), failed_at = CASE WHEN ?4 IS NULL THEN failed_at ELSE ?5 END, extra = ?6
WHERE seq = ?1
