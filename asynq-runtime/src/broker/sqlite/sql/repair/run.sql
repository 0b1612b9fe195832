-- Makes a task pending on request; it has left its group for good. ?1 seq, ?2 place in line, ?3 now.
UPDATE main.task SET state = 2 /* pending */, at = ?2, since = ?3, crashes = 0, grp = NULL WHERE seq = ?1
