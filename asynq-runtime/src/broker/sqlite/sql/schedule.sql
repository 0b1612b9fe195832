-- Entries, ticks and leaders of schedules (contract: `broker/schedule.rs`).

-- name: entry
-- A periodic entry. ?1 queue, ?2 entry, ?3 now. Row: spec, zone, revision, last, previous, paused.
SELECT spec, zone, revision, last, previous, paused FROM main.cron
WHERE queue = ?1 AND entry = ?2 AND until > ?3;

-- name: keep
-- Stores an entry. ?1 queue, ?2 entry, ?3 spec, ?4 zone, ?5 revision, ?6 last, ?7 previous, ?8 paused, ?9 until.
INSERT INTO main.cron(queue, entry, spec, zone, revision, last, previous, paused, until)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT(queue, entry) DO UPDATE SET spec = excluded.spec, zone = excluded.zone, revision = excluded.revision,
  last = excluded.last, previous = excluded.previous, paused = excluded.paused, until = excluded.until;

-- name: pause
-- Pauses or resumes an entry: after a resume, its next tick is the first after now. ?1 queue, ?2 entry, ?3 1 to pause it, ?4 now.
UPDATE main.cron SET paused = ?3, last = CASE ?3 WHEN 1 THEN last ELSE MAX(last, ?4) END
WHERE queue = ?1 AND entry = ?2 AND paused <> ?3 AND until > ?4;

-- name: forget
-- Forgets an entry. ?1 queue, ?2 entry.
DELETE FROM main.cron WHERE queue = ?1 AND entry = ?2;

-- name: marked
-- Whether a tick has a marker. ?1 queue, ?2 entry, ?3 the tick, ?4 now. A row if it has.
SELECT 1 FROM main.tick WHERE queue = ?1 AND entry = ?2 AND at = ?3 AND until > ?4;

-- name: mark
-- Marks a tick. ?1 queue, ?2 entry, ?3 the tick, ?4 until.
INSERT INTO main.tick(queue, entry, at, until) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT(queue, entry, at) DO UPDATE SET until = excluded.until;

-- name: leader
-- The leader of the schedulers of a program. ?1 program. Row: token, revision, until, wanted, wanted_until, touched.
SELECT token, revision, until, wanted, wanted_until, touched FROM main.lead WHERE program = ?1;

-- name: set_leader
-- Writes the leader of a program. ?1 program, ?2 token, ?3 revision, ?4 until, ?5 wanted, ?6 wanted_until, ?7 now.
INSERT INTO main.lead(program, token, revision, until, wanted, wanted_until, touched) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT(program) DO UPDATE SET token = excluded.token, revision = excluded.revision, until = excluded.until,
  wanted = excluded.wanted, wanted_until = excluded.wanted_until, touched = excluded.touched;

-- name: resign
-- Gives the lead up. ?1 program, ?2 token, ?3 now.
UPDATE main.lead SET token = '', until = 0, touched = ?3 WHERE program = ?1 AND token = ?2;

-- name: show
-- Shows an entry of a scheduler. ?1 scheduler, ?2 its place, ?3 info, ?4 until.
INSERT INTO main.shown(scheduler, n, info, until) VALUES (?1, ?2, ?3, ?4);

-- name: withdraw
-- Takes the entries of a scheduler off the list. ?1 scheduler.
DELETE FROM main.shown WHERE scheduler = ?1;

-- name: shown
-- The entries of all schedulers that live. ?1 now. Rows: info.
SELECT info FROM main.shown WHERE until > ?1 ORDER BY scheduler, n;

-- name: record
-- Adds an event to the history of an entry, unless it is there already. ?1 entry, ?2 Unix seconds, ?3 event.
INSERT INTO main.enqueued(entry, at, event) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING;

-- name: count
-- Adds to the number of events in the history of an entry, and renews the history. ?1 entry, ?2 how many, ?3 until.
-- Row: how many there are.
INSERT INTO main.history(entry, n, until) VALUES (?1, ?2, ?3)
ON CONFLICT(entry) DO UPDATE SET n = n + excluded.n, until = excluded.until RETURNING n;

-- name: trim
-- Forgets the oldest of the history of an entry. ?1 entry, ?2 how many.
DELETE FROM main.enqueued WHERE (entry, at, event) IN (
  SELECT entry, at, event FROM main.enqueued WHERE entry = ?1 ORDER BY at, event LIMIT ?2);

-- name: history_until
-- Until when there is a history of an entry. ?1 entry. Row: until.
SELECT until FROM main.history WHERE entry = ?1;

-- name: history
-- A page of the history of an entry, the newest first. ?1 entry, ?2 now, ?3 how many, ?4 after how many. Rows: event.
SELECT event FROM main.enqueued
WHERE entry = ?1 AND EXISTS (SELECT 1 FROM main.history WHERE entry = ?1 AND until > ?2)
ORDER BY at DESC, event DESC LIMIT ?3 OFFSET ?4;

-- name: forget_enqueued
-- Forgets the enqueues of an entry. ?1 entry.
DELETE FROM main.enqueued WHERE entry = ?1;

-- name: forget_history
-- Forgets that an entry has a history. ?1 entry.
DELETE FROM main.history WHERE entry = ?1;

-- name: over_histories
-- Histories whose time has passed. ?1 now, ?2 how many. Rows: entry.
SELECT entry FROM main.history WHERE until <= ?1 LIMIT ?2;

-- name: sweep_ticks
-- Removes markers whose time is over. ?1 now, ?2 how many.
DELETE FROM main.tick WHERE (queue, entry, at) IN (
  SELECT queue, entry, at FROM main.tick WHERE until <= ?1 ORDER BY until LIMIT ?2);

-- name: sweep_entries
-- Forgets entries that no program plans any more. ?1 now.
DELETE FROM main.cron WHERE until <= ?1;

-- name: sweep_shown
-- Takes the entries of schedulers that do not live off the list. ?1 now.
DELETE FROM main.shown WHERE until <= ?1;

-- name: sweep_leads
-- Removes leads that no scheduler has and none wants. ?1 now.
DELETE FROM main.lead WHERE until <= ?1 AND wanted_until <= ?1;
