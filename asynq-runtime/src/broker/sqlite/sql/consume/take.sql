-- Makes a pending task active. Its place in line stays in `since`, which recovery orders tasks by.
-- ?1 seq, ?2 end of the lease, ?3 server, ?4 run.
UPDATE main.task SET state = 1 /* active */, since = at, at = ?2, server = ?3, run = ?4, progress = NULL, progress_note = NULL
WHERE seq = ?1
