-- Collects grouped tasks into sets (contract: `broker/groups.rs`).

-- name: stats
-- How many tasks wait in a group, and when the first of them joined it. ?1 q, ?2 group, as text or bytes, ?3 the number after
-- which it no longer counts. Row: size, oldest or null.
SELECT
  (SELECT count(*) FROM
     (SELECT 1 FROM main.task AS t INDEXED BY task_group
      WHERE t.q = ?1 AND t.grp = CAST(?2 AS TEXT) AND t.state = 7 /* aggregating */ AND t.batch IS NULL LIMIT ?3)),
  (SELECT min(t.at) FROM main.task AS t INDEXED BY task_group
   WHERE t.q = ?1 AND t.grp = CAST(?2 AS TEXT) AND t.state = 7 /* aggregating */ AND t.batch IS NULL);

-- name: next
-- The next group with waiting tasks, by name. ?1 q, ?2 after this name, as text or bytes. Row: name; none at the end.
SELECT t.grp FROM main.task AS t INDEXED BY task_group
WHERE t.q = ?1 AND t.grp > CAST(?2 AS TEXT) AND t.state = 7 /* aggregating */ AND t.batch IS NULL ORDER BY t.grp LIMIT 1;

-- name: span
-- When the first and the last of a group's tasks joined it. ?1 q, ?2 group. Row: first, last; both null if none waits.
SELECT
  (SELECT min(t.at) FROM main.task AS t INDEXED BY task_group
   WHERE t.q = ?1 AND t.grp = ?2 AND t.state = 7 /* aggregating */ AND t.batch IS NULL),
  (SELECT max(t.at) FROM main.task AS t INDEXED BY task_group
   WHERE t.q = ?1 AND t.grp = ?2 AND t.state = 7 /* aggregating */ AND t.batch IS NULL);

-- name: reaches
-- Whether a number of tasks wait in a group. ?1 q, ?2 group, ?3 the number less one. A row if so.
SELECT 1 FROM main.task AS t INDEXED BY task_group
WHERE t.q = ?1 AND t.grp = ?2 AND t.state = 7 /* aggregating */ AND t.batch IS NULL LIMIT 1 OFFSET ?3;

-- name: waiting
-- The tasks of a group in the order in which they joined it. ?1 q, ?2 group, ?3 how many, ?4 whether messages are read.
-- Rows: as `next` of consume.sql.
SELECT t.seq, t.q, t.id, t.crashes, t.extra, t.retried, t.err, t.failed_at, t.uniq, t.since,
  (SELECT b.msg FROM main.body AS b WHERE ?4 AND b.seq = t.seq)
FROM main.task AS t INDEXED BY task_group
WHERE t.q = ?1 AND t.grp = ?2 AND t.state = 7 /* aggregating */ AND t.batch IS NULL ORDER BY t.at, t.seq LIMIT ?3;

-- name: open_set
-- Begins a set; the rowid is its number. ?1 q, ?2 group, ?3 deadline, ?4 id.
INSERT INTO main.batch(q, grp, deadline, id) VALUES (?1, ?2, ?3, ?4);

-- name: join_set
-- Puts a waiting task into a set. ?1 seq, ?2 set.
UPDATE main.task SET batch = ?2 WHERE seq = ?1;

-- name: set
-- A set that is open, or the receipt of a set that was finished. ?1 set, ?2 id. Row: q, 1 if it was finished.
SELECT q, ended FROM main.batch WHERE batch = ?1 AND id = ?2;

-- name: members
-- The tasks of a set in the order in which they joined their group. ?1 q, ?2 set. Rows: as `find` of task.sql.
SELECT t.seq, t.id, t.state, t.at, t.uniq, t.extra, 1, t.retried, t.retention, t.server, 1 FROM main.task AS t INDEXED BY task_batch
WHERE t.q = ?1 AND t.batch = ?2 ORDER BY t.at, t.seq;

-- name: end_set
-- Leaves a receipt of a set that was finished. ?1 set, ?2 until when it is kept.
UPDATE main.batch SET ended = 1, deadline = ?2 WHERE batch = ?1;

-- name: note_crash
-- Counts at the first task of a set that the set came back at its deadline: its server has mostly died. ?1 q, ?2 set.
UPDATE main.task SET crashes = crashes + 1 WHERE seq =
  (SELECT t.seq FROM main.task AS t INDEXED BY task_batch WHERE t.q = ?1 AND t.batch = ?2 ORDER BY t.at, t.seq LIMIT 1);

-- name: release
-- Returns the tasks of a set to their group, as if they had never left it. ?1 q, ?2 set.
UPDATE main.task INDEXED BY task_batch SET batch = NULL WHERE q = ?1 AND batch = ?2;

-- name: forget_set
-- Forgets a set, or its receipt. ?1 set.
DELETE FROM main.batch WHERE batch = ?1;

-- name: shorten
-- Shortens the time of sets whose deadline was given by a clock that has been set back since. ?1 q, ?2 latest deadline.
UPDATE main.batch INDEXED BY batch_deadline SET deadline = ?2 WHERE q = ?1 AND deadline > ?2 AND NOT ended;

-- name: over
-- Sets and receipts whose time has passed, the oldest first. ?1 q, ?2 now, ?3 how many. Rows: set, 1 if it is a receipt.
SELECT batch, ended FROM main.batch AS s INDEXED BY batch_deadline
WHERE s.q = ?1 AND s.deadline <= ?2 ORDER BY s.deadline LIMIT ?3;
