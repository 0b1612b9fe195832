-- Stores new tasks (contract: `broker/produce.rs`).

-- name: replace
-- Gives a waiting task the contents of another enqueue; nothing of its attempts stays.
-- ?1 seq, ?2 state (2 pending or 3 scheduled), ?3 at, ?4 since or null where it stays, ?5 type, ?6 retried, ?7 max_retry,
-- ?8 timeout, ?9 deadline, ?10 retention, ?11 extra.
UPDATE main.task SET state = ?2, at = ?3, since = coalesce(?4, since), type = ?5, retried = ?6, max_retry = ?7, timeout = ?8,
  deadline = ?9, retention = ?10, extra = ?11, crashes = 0, err = NULL, failed_at = NULL, progress = NULL, progress_note = NULL
WHERE seq = ?1;

-- name: insert
-- Adds a task unless its id is taken (no change then). Its row follows those of its queue: the tasks of a queue, which are taken
-- together, lie on the same pages, however many queues were filled in turns. Queue 3 has the rows from 3 << 40; SQLite chooses
-- another if all of them are used up. The search has no lower bound, because SQLite would take that one alone after an ANALYZE of few tasks.
-- ?1 q, ?2 state (2 pending, 3 scheduled or 7 aggregating), ?3 at, ?4 since, ?5 id, ?6 type, ?7 retried, ?8 max_retry,
-- ?9 timeout, ?10 deadline, ?11 retention, ?12 uniq, ?13 err, ?14 failed_at, ?15 extra, ?16 group.
INSERT INTO main.task(
  seq, q, state, at, since, id, type, retried, max_retry, timeout, deadline, retention, uniq, err, failed_at, extra, grp)
VALUES (
  (SELECT nullif(max(coalesce(max(seq) + 1, ?1 << 40), ?1 << 40), (?1 << 40) + (1 << 40)) FROM main.task WHERE seq < (?1 << 40) + (1 << 40)),
  ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
ON CONFLICT(q, id) DO NOTHING;

-- name: taken_by
-- The task that has an id already. ?1 q, ?2 id. Row: state, at, message or null.
SELECT t.state, t.at, (SELECT b.msg FROM main.body AS b WHERE b.seq = t.seq) FROM main.task AS t WHERE t.q = ?1 AND t.id = ?2;
