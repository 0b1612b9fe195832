-- Gives a waiting task the contents of another enqueue; nothing of its attempts stays.
-- ?1 seq, ?2 state (2 pending or 3 scheduled), ?3 at, ?4 since or null where it stays, ?5 type, ?6 retried, ?7 max_retry,
-- ?8 timeout, ?9 deadline, ?10 retention, ?11 extra.
UPDATE main.task SET state = ?2, at = ?3, since = coalesce(?4, since), type = ?5, retried = ?6, max_retry = ?7, timeout = ?8,
  deadline = ?9, retention = ?10, extra = ?11, crashes = 0, err = NULL, failed_at = NULL, progress = NULL, progress_note = NULL
WHERE seq = ?1
