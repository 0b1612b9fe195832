-- Puts a task into another queue. Its body and failures know it by its row, and stay. ?1 seq, ?2 q, ?3 at, ?4 uniq.
UPDATE main.task SET q = ?2, at = ?3, uniq = ?4 WHERE seq = ?1
