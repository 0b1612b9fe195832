-- Lets a due task wait in its group. ?1 seq, ?2 now.
UPDATE main.task SET state = 7 /* aggregating */, at = ?2 WHERE seq = ?1
