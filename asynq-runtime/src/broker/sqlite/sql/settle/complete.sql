-- Keeps a success. ?1 seq, ?2 expiry, ?3 retention in seconds.
UPDATE main.task SET state = 6, at = ?2, retention = ?3, last = run, server = 0, run = 0, crashes = 0 WHERE seq = ?1
