-- Renews the lease of a run that still holds its task. ?1 seq, ?2 server, ?3 run, ?4 id, ?5 end of the lease.
UPDATE main.task SET at = ?5 WHERE seq = ?1 AND state = 1 /* active */ AND server = ?2 AND run = ?3 AND id = ?4
