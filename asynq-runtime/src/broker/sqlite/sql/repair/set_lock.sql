-- Sets the unique lock of a task. ?1 seq, ?2 key.
UPDATE main.task SET uniq = ?2 WHERE seq = ?1
