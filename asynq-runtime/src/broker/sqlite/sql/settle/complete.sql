-- Completes a running task. ?1 seq, ?2 expiry, ?3 retention in seconds, ?4 extra or null where it stays as it is.
UPDATE main.task SET state = 6 /* completed */, at = ?2, retention = ?3, last = run, server = 0, run = 0, crashes = 0, extra = coalesce(?4, extra)
WHERE seq = ?1
