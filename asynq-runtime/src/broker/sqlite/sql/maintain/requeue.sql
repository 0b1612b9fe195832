-- Requeues a task whose worker is gone. ?1 seq, ?2 place in line, ?3 now.
UPDATE main.task SET state = 2 /* pending */, at = ?2, since = ?3, server = 0, run = 0, crashes = crashes + 1 WHERE seq = ?1
