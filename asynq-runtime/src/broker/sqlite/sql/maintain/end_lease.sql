-- Ends a lease. ?1 seq, ?2 now.
UPDATE main.task SET at = ?2 WHERE seq = ?1
