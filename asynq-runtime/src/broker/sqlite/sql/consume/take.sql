-- Makes a pending task active. ?1 seq, ?2 end of the lease, ?3 server, ?4 run.
UPDATE main.task SET state = 1, at = ?2, server = ?3, run = ?4, progress = NULL, progress_note = NULL WHERE seq = ?1
