-- Which unique lock a task takes. ?1 seq, ?2 key.
UPDATE main.task SET uniq = ?2 WHERE seq = ?1
