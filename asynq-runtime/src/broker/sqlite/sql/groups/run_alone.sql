-- Makes a task of a set pending; it has left its group for good. ?1 seq, ?2 place in line, ?3 now.
UPDATE main.task SET state = 2 /* pending */, at = ?2, since = ?3, grp = NULL, batch = NULL WHERE seq = ?1
