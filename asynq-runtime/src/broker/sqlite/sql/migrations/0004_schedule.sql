-- Version 1003: periodic entries, their ticks, the leader of the schedulers, and the rows that asynq's tools show.
-- Queues are written by name: an entry is older than the first task of its queue, and outlives a queue that is deleted.
-- A row whose `until` has passed counts as gone; the janitor takes it away. All times are Unix milliseconds.
CREATE TABLE main.cron(
  queue TEXT NOT NULL,
  entry TEXT NOT NULL,
  spec TEXT NOT NULL,
  zone TEXT NOT NULL,
  revision INTEGER NOT NULL,
  last INTEGER NOT NULL,
  previous TEXT,
  paused INTEGER NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY(queue, entry)
) STRICT, WITHOUT ROWID;

-- One marker per tick that was fired or skipped, for a clock that is set back and an entry that was forgotten.
CREATE TABLE main.tick(
  queue TEXT NOT NULL,
  entry TEXT NOT NULL,
  at INTEGER NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY(queue, entry, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX main.tick_until ON [tick](until);

-- The one row names the leader; `wanted` is the newest revision that wants the lead, until `wanted_until`. `touched` is when
-- the row was written: one from the future was written before the clock was set back. Revisions are the bits of a u64.
CREATE TABLE main.leader(
  one INTEGER PRIMARY KEY CHECK (one = 1),
  token TEXT NOT NULL,
  revision INTEGER NOT NULL,
  until INTEGER NOT NULL,
  wanted INTEGER NOT NULL,
  wanted_until INTEGER NOT NULL,
  touched INTEGER NOT NULL
) STRICT;

-- The entries of each scheduler, in its order; `info` is asynq's SchedulerEntry.
CREATE TABLE main.shown(
  scheduler TEXT NOT NULL,
  n INTEGER NOT NULL,
  info BLOB NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY(scheduler, n)
) STRICT, WITHOUT ROWID;

-- The enqueues of each entry; `event` is asynq's SchedulerEnqueueEvent and `at` its time in Unix seconds.
CREATE TABLE main.enqueued(
  entry TEXT NOT NULL,
  at INTEGER NOT NULL,
  event BLOB NOT NULL,
  PRIMARY KEY(entry, at, event)
) STRICT, WITHOUT ROWID;

-- How many rows of `enqueued` an entry has, and until when they are kept without another.
CREATE TABLE main.history(
  entry TEXT PRIMARY KEY,
  n INTEGER NOT NULL,
  until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
