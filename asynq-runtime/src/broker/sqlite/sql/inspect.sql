-- Looks at queues and tasks (contract: `broker/inspect.rs`).

-- name: queues
-- Every queue that ever had a task, by name. Rows: name.
SELECT queue.name FROM main.queue AS queue WHERE EXISTS (SELECT 1 FROM main.tally AS c WHERE c.q = queue.q) ORDER BY queue.name;

-- name: known
-- Whether a queue ever had a task. ?1 name. A row if so.
SELECT 1 FROM main.tally AS c WHERE c.q = (SELECT queue.q FROM main.queue AS queue WHERE queue.name = ?1) LIMIT 1;

-- name: queue
-- A queue. ?1 name. Row: q, paused_at.
SELECT q, paused_at FROM main.queue WHERE name = ?1;

-- name: counts
-- Tasks per state; in groups only tasks that wait, not tasks that were taken out as a set. ?1 q. Rows: state, n.
SELECT c.state, c.n - CASE c.state WHEN 7 /* aggregating */ THEN
  (SELECT count(*) FROM main.task AS t INDEXED BY task_batch WHERE t.q = ?1 AND t.batch IS NOT NULL) ELSE 0 END
FROM main.tally AS c WHERE c.q = ?1;

-- name: unended
-- Whether a queue has a task that has not ended; those of a set count as aggregating. The counts may be too high, as after tasks
-- were lost in a salvage. ?1 q. A row if so.
SELECT 1 FROM main.task AS t INDEXED BY task_at
WHERE t.q = ?1 AND t.state IN (1 /* active */, 2 /* pending */, 3 /* scheduled */, 4 /* retry */, 7 /* aggregating */) LIMIT 1;

-- name: stat
-- A day's counters. ?1 q, ?2 day (-1 = all time). Row: processed, failed.
SELECT processed, failed FROM main.stat WHERE q = ?1 AND day = ?2;

-- name: first
-- The first task of a state, by time. ?1 q, ?2 state. Row: since (of a pending task), at.
SELECT since, at FROM main.task WHERE q = ?1 AND state = ?2 ORDER BY at, seq LIMIT 1;

-- name: page
-- A page of one state, by time; of aggregating tasks only those that wait in groups, over all groups. ?1 q, ?2 state, ?3 size, ?4 and ?5
-- `at` and `seq` of the first task, of `page_start`. Rows: a task as in `task`.
SELECT t.state, t.at, t.id, t.crashes, t.retried, t.err, t.failed_at, t.retention, t.progress, t.progress_note, t.extra, t.seq
FROM main.task AS t INDEXED BY task_at
WHERE t.q = ?1 AND t.state = ?2 AND (?2 <> 7 /* aggregating */ OR t.batch IS NULL) AND (t.at, t.seq) >= (?4, ?5)
ORDER BY t.at, t.seq LIMIT ?3;

-- name: page_start
-- Where a page begins, counted from the first task. Aggregating tasks that a set has taken out are left out by their number, so that
-- the index alone is read before the page. ?1 q, ?2 state, ?3 how many come before. Row: at, seq.
SELECT t.at, t.seq FROM main.task AS t INDEXED BY task_at
WHERE t.q = ?1 AND t.state = ?2 AND (?2 <> 7 /* aggregating */
  OR t.seq NOT IN (SELECT s.seq FROM main.task AS s INDEXED BY task_batch WHERE s.q = ?1 AND s.batch IS NOT NULL))
ORDER BY t.at, t.seq LIMIT 1 OFFSET ?3;

-- name: page_start_back
-- As `page_start`, counted from the last task: nearer where the page is in the second half. ?1 q, ?2 state,
-- ?3 how many come after. Row: at, seq.
SELECT t.at, t.seq FROM main.task AS t INDEXED BY task_at
WHERE t.q = ?1 AND t.state = ?2 AND (?2 <> 7 /* aggregating */
  OR t.seq NOT IN (SELECT s.seq FROM main.task AS s INDEXED BY task_batch WHERE s.q = ?1 AND s.batch IS NOT NULL))
ORDER BY t.at DESC, t.seq DESC LIMIT 1 OFFSET ?3;

-- name: page_active
-- A page of the running tasks, oldest run first (extending a lease moves `at`, so the run decides).
-- ?1 q, ?2 size, ?3 offset. Rows: a task as in `task`.
SELECT t.state, t.at, t.id, t.crashes, t.retried, t.err, t.failed_at, t.retention, t.progress, t.progress_note, t.extra, t.seq
FROM main.task AS t WHERE t.q = ?1 AND t.state = 1 /* active */ ORDER BY t.run, t.seq LIMIT ?2 OFFSET ?3;

-- name: page_group
-- A page of the tasks that wait in one group. ?1 q, ?2 group, ?3 size, ?4 and ?5 `at` and `seq` of the first task, of
-- `page_group_start`. Rows: a task as in `task`.
SELECT t.state, t.at, t.id, t.crashes, t.retried, t.err, t.failed_at, t.retention, t.progress, t.progress_note, t.extra, t.seq
FROM main.task AS t INDEXED BY task_group
WHERE t.q = ?1 AND t.grp = ?2 AND t.state = 7 /* aggregating */ AND t.batch IS NULL AND (t.at, t.seq) >= (?4, ?5)
ORDER BY t.at, t.seq LIMIT ?3;

-- name: page_group_start
-- Where a page of `page_group` begins; the index alone is read. ?1 q, ?2 group, ?3 how many come before. Row: at, seq.
SELECT t.at, t.seq FROM main.task AS t INDEXED BY task_group
WHERE t.q = ?1 AND t.grp = ?2 AND t.state = 7 /* aggregating */ AND t.batch IS NULL ORDER BY t.at, t.seq LIMIT 1 OFFSET ?3;

-- name: task
-- One task. ?1 queue name, ?2 id.
-- Row: state, at, id, crashes, retried, err, failed_at, retention, progress, progress_note, extra, seq.
SELECT t.state, t.at, t.id, t.crashes, t.retried, t.err, t.failed_at, t.retention, t.progress, t.progress_note, t.extra, t.seq
FROM main.task AS t
WHERE t.q = (SELECT q FROM main.queue WHERE name = ?1) AND t.id = ?2;

-- name: state
-- The state of a task, for a waiter. ?1 queue name, ?2 id. Row: state, extra.
SELECT state, extra FROM main.task WHERE q = (SELECT q FROM main.queue WHERE name = ?1) AND id = ?2;

-- name: queues_of
-- The queues that have a task of this id. ?1 id. Rows: name.
SELECT q.name FROM main.queue AS q WHERE EXISTS (SELECT 1 FROM main.task AS t WHERE t.q = q.q AND t.id = ?1) ORDER BY q.name;

-- name: failures
-- How the last attempts of a task failed, the newest first. ?1 queue name, ?2 id, ?3 how many. Rows: n, at, error.
SELECT f.n, f.at, f.error FROM main.task AS t JOIN main.failure AS f ON f.seq = t.seq
WHERE t.q = (SELECT q FROM main.queue WHERE name = ?1) AND t.id = ?2 ORDER BY f.n DESC LIMIT ?3;

-- name: last_error
-- The last error of a task, whichever server wrote it. ?1 queue name, ?2 id. Row: error, when, retried; none if it has no error.
SELECT t.err, t.failed_at, t.retried FROM main.task AS t
WHERE t.q = (SELECT q FROM main.queue WHERE name = ?1) AND t.id = ?2 AND t.err IS NOT NULL AND t.failed_at IS NOT NULL;

-- name: history
-- Counters by day. ?1 queue name, ?2 first day, ?3 last day. Rows: day, processed, failed.
SELECT s.day, s.processed, s.failed FROM main.stat AS s
WHERE s.q = (SELECT q FROM main.queue WHERE name = ?1) AND s.day BETWEEN ?2 AND ?3;

-- name: weight
-- The average size of the first tasks in a state, without the overhead of the file for each row.
-- ?1 q, ?2 state, ?3 how many to weigh. Row: bytes or null.
SELECT avg(s.bytes) FROM (
  SELECT octet_length(t.id) + octet_length(t.type) + coalesce(octet_length(t.uniq), 0) + coalesce(octet_length(t.grp), 0)
    + coalesce(octet_length(t.err), 0) + coalesce(octet_length(t.extra), 0) + coalesce(octet_length(t.progress_note), 0)
    + coalesce((SELECT octet_length(b.msg) + coalesce(octet_length(b.result), 0) FROM main.body AS b WHERE b.seq = t.seq), 0)
    + (SELECT coalesce(sum(octet_length(f.error)), 0) FROM main.failure AS f WHERE f.seq = t.seq) AS bytes
  FROM main.task AS t INDEXED BY task_at
  WHERE t.q = ?1 AND t.state = ?2 ORDER BY t.at, t.seq LIMIT ?3) AS s;

-- name: pause
-- Stops dequeues from a queue, which need not exist yet; no change if they are stopped. ?1 name, ?2 now.
INSERT INTO main.queue(name, paused_at) VALUES (?1, ?2)
ON CONFLICT(name) DO UPDATE SET paused_at = excluded.paused_at WHERE paused_at IS NULL;

-- name: resume
-- Resumes a queue; no change if it is not paused. ?1 name.
UPDATE main.queue SET paused_at = NULL WHERE name = ?1 AND paused_at IS NOT NULL;
