-- Archives a task that no server runs any more. `last` stays: the run that lost the task left no receipt.
-- ?1 seq, ?2 now, ?3 error.
UPDATE main.task SET state = 5 /* archived */, at = ?2, server = 0, run = 0, crashes = 0, err = ?3, failed_at = ?2 WHERE seq = ?1
