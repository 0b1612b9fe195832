-- Archives a task as it is. ?1 seq, ?2 now.
UPDATE main.task SET state = 5 /* archived */, at = ?2 WHERE seq = ?1
