-- Archives a task of a set. ?1 seq, ?2 now, ?3 error.
UPDATE main.task SET state = 5 /* archived */, at = ?2, err = ?3, failed_at = ?2, grp = NULL, batch = NULL WHERE seq = ?1
