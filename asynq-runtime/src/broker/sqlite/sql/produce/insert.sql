-- Adds a task unless its id is taken (no change then).
-- ?1 q, ?2 state (2 pending, 3 scheduled or 7 aggregating), ?3 at, ?4 since, ?5 id, ?6 type, ?7 retried, ?8 max_retry,
-- ?9 timeout, ?10 deadline, ?11 retention, ?12 uniq, ?13 err, ?14 failed_at, ?15 extra, ?16 group.
INSERT INTO main.task(
  q, state, at, since, id, type, retried, max_retry, timeout, deadline, retention, uniq, err, failed_at, extra, grp)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
ON CONFLICT(q, id) DO NOTHING
