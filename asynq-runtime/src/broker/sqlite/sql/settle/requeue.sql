-- Requeues a task as if it had not been taken. ?1 seq, ?2 place in line, ?3 now.
UPDATE main.task SET state = 2 /* pending */, at = ?2, since = ?3, last = run, server = 0, run = 0 WHERE seq = ?1
