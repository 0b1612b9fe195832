-- Archives a running task. ?1 seq, ?2 now, ?3 error, ?4 extra.
UPDATE main.task SET state = 5 /* archived */, at = ?2, last = run, server = 0, run = 0, crashes = 0, err = ?3, failed_at = ?2, extra = ?4
WHERE seq = ?1
