-- Forwards due tasks, extends leases and recovers lost runs (contract: `broker/maintain.rs`).

-- name: due
-- Tasks that are due. ?1 q, ?2 state (3 scheduled or 4 retry), ?3 now, ?4 how many. Rows: at, seq, whether it has a group.
SELECT at, seq, grp IS NOT NULL FROM main.task WHERE q = ?1 AND state = ?2 AND at <= ?3 ORDER BY at, seq LIMIT ?4;

-- name: next_due
-- When the next task of a queue is due. ?1 name. Row: at or null.
SELECT min(at) FROM (
  SELECT min(t.at) AS at FROM main.task AS t WHERE t.q = (SELECT q FROM main.queue WHERE name = ?1) AND t.state = 3 /* scheduled */
  UNION ALL
  SELECT min(t.at) FROM main.task AS t WHERE t.q = (SELECT q FROM main.queue WHERE name = ?1) AND t.state = 4 /* retry */);

-- name: forward
-- Makes a due task pending. ?1 seq, ?2 position in the queue, ?3 now.
UPDATE main.task SET state = 2 /* pending */, at = ?2, since = ?3 WHERE seq = ?1;

-- name: join_group
-- Lets a due task wait in its group. ?1 seq, ?2 now.
UPDATE main.task SET state = 7 /* aggregating */, at = ?2 WHERE seq = ?1;

-- name: extend
-- Renews the lease of a run that still holds its task. ?1 seq, ?2 server, ?3 run, ?4 id, ?5 end of the lease.
UPDATE main.task SET at = ?5 WHERE seq = ?1 AND state = 1 /* active */ AND server = ?2 AND run = ?3 AND id = ?4;

-- name: lapsed
-- Active tasks whose lease has passed. ?1 q, ?2 now, ?3 how many.
-- Rows: seq, id, run, position in the queue when it was taken, end of the lease, whether its server is on the list.
SELECT t.seq, t.id, t.run, t.since, t.at, EXISTS (SELECT 1 FROM main.server AS s WHERE s.server = t.server)
FROM main.task AS t WHERE t.q = ?1 AND t.state = 1 /* active */ AND t.at <= ?2 ORDER BY t.at, t.seq LIMIT ?3;

-- name: next_lapse
-- When the first lease of a queue's active tasks passes. ?1 q. Row: at or null.
SELECT min(at) FROM main.task WHERE q = ?1 AND state = 1 /* active */;

-- name: lapses
-- When the first lease of each queue with active tasks passes. Rows: name of the queue, at.
SELECT (SELECT queue.name FROM main.queue AS queue WHERE queue.q = t.q) AS name, min(t.at)
FROM main.task AS t INDEXED BY task_lease WHERE t.state = 1 /* active */ GROUP BY t.q HAVING name IS NOT NULL;

-- name: left_by
-- Active tasks of a server. ?1 q, ?2 server, ?3 how many. Rows: as `lapsed`.
SELECT seq, id, run, since FROM main.task INDEXED BY task_at
WHERE q = ?1 AND state = 1 /* active */ AND server = ?2 ORDER BY at, seq LIMIT ?3;

-- name: left_in
-- The queues in which a server holds tasks. ?1 server. Row: name.
SELECT (SELECT queue.name FROM main.queue AS queue WHERE queue.q = t.q) AS name
FROM main.task AS t INDEXED BY task_lease WHERE t.state = 1 /* active */ AND t.server = ?1 GROUP BY t.q HAVING name IS NOT NULL;

-- name: requeue
-- Requeues a task whose worker is gone. ?1 seq, ?2 position in the queue, ?3 now.
UPDATE main.task SET state = 2 /* pending */, at = ?2, since = ?3, server = 0, run = 0, crashes = crashes + 1 WHERE seq = ?1;

-- name: endless
-- Active tasks with a lease that no worker with the lease of this one can have given. ?1 q, ?2 latest believable end, ?3 how many.
-- Rows: seq.
SELECT seq FROM main.task WHERE q = ?1 AND state = 1 /* active */ AND at > ?2 LIMIT ?3;

-- name: end_lease
-- Ends a lease. ?1 seq, ?2 now.
UPDATE main.task SET at = ?2 WHERE seq = ?1;

-- name: ghosts
-- Tasks at the front of a state whose message is lost. ?1 q, ?2 state, ?3 how many to look at. Rows: seq, id, uniq.
SELECT front.seq, front.id, front.uniq
FROM (SELECT t.seq, t.id, t.uniq FROM main.task AS t WHERE t.q = ?1 AND t.state = ?2 ORDER BY t.at, t.seq LIMIT ?3) AS front
WHERE NOT EXISTS (SELECT 1 FROM main.body AS b WHERE b.seq = front.seq);

-- name: expired
-- Completed tasks whose retention has passed. ?1 q, ?2 now, ?3 how many. Rows: seq.
SELECT seq FROM main.task WHERE q = ?1 AND state = 6 /* completed */ AND at <= ?2 ORDER BY at, seq LIMIT ?3;

-- name: oldest_archived
-- Archived tasks, oldest first. ?1 q, ?2 how many. Rows: seq, at, id, uniq.
SELECT seq, at, id, uniq FROM main.task WHERE q = ?1 AND state = 5 /* archived */ ORDER BY at, seq LIMIT ?2;
