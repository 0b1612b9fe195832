-- Version 1004: each program has a leader and entries of its own, and an entry knows the task that its last tick replaced.
-- Times are Unix milliseconds; a row whose times have passed counts as gone, and the janitor takes it away. Programs of version
-- 1003 go on with the table `leader`.

-- The task that the last tick replaced while it ran.
ALTER TABLE main.cron ADD COLUMN replaced TEXT;

-- The leader of the schedulers of a program; the columns are those of `leader`.
CREATE TABLE main.lead(
  program TEXT PRIMARY KEY,
  token TEXT NOT NULL,
  revision INTEGER NOT NULL,
  until INTEGER NOT NULL,
  wanted INTEGER NOT NULL,
  wanted_until INTEGER NOT NULL,
  touched INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The entries that a program had when it last said so, in its order; `info` is asynq's SchedulerEntry. No program writes or reads
-- this table any more.
CREATE TABLE main.program_entry(
  program TEXT NOT NULL,
  n INTEGER NOT NULL,
  info BLOB NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY(program, n)
) STRICT, WITHOUT ROWID;
