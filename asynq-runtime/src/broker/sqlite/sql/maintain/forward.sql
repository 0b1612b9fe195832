-- Makes a due task pending. ?1 seq, ?2 place in line, ?3 now.
UPDATE main.task SET state = 2 /* pending */, at = ?2, since = ?3 WHERE seq = ?1
