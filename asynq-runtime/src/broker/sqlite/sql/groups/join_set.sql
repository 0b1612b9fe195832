-- Puts a waiting task into a set. ?1 seq, ?2 set.
UPDATE main.task SET batch = ?2 WHERE seq = ?1
