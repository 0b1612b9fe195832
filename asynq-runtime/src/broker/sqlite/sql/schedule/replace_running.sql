-- Says of a running task that its run is its last. ?1 seq, ?2 extra.
UPDATE main.task SET extra = ?2 WHERE seq = ?1
