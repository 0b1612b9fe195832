-- Version 1000: queues, tasks and the servers that run them.
-- `at` is the one sort key, whose meaning depends on the state: pending = place in line, active = end of the lease,
-- scheduled and retry = exact due time, archived = when, completed = when it expires, aggregating = when it was added.
-- All times are Unix milliseconds. Within a major version only additive changes follow.
CREATE TABLE main.queue(
  q INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  paused_at INTEGER
) STRICT;

CREATE TABLE main.task(
  seq INTEGER PRIMARY KEY,
  q INTEGER NOT NULL,
  state INTEGER NOT NULL,
  at INTEGER NOT NULL,
  id TEXT NOT NULL,
  type TEXT NOT NULL,
  server INTEGER NOT NULL DEFAULT 0,
  run INTEGER NOT NULL DEFAULT 0,
  last INTEGER NOT NULL DEFAULT 0,
  retried INTEGER NOT NULL DEFAULT 0,
  max_retry INTEGER NOT NULL DEFAULT 25,
  crashes INTEGER NOT NULL DEFAULT 0,
  timeout INTEGER NOT NULL DEFAULT 0,
  deadline INTEGER NOT NULL DEFAULT 0,
  retention INTEGER NOT NULL DEFAULT 0,
  since INTEGER NOT NULL DEFAULT 0,
  uniq TEXT,
  grp TEXT,
  batch INTEGER,
  err TEXT,
  failed_at INTEGER,
  extra BLOB,
  progress REAL,
  progress_note TEXT
) STRICT;

CREATE TABLE main.body(
  seq INTEGER PRIMARY KEY,
  msg BLOB NOT NULL,
  result BLOB
) STRICT;

CREATE UNIQUE INDEX main.task_id ON task(q, id);
CREATE INDEX main.task_at ON task(q, state, at);
CREATE INDEX main.task_lease ON task(at) WHERE state = 1;
CREATE INDEX main.task_due ON task(at) WHERE state IN (3, 4);
CREATE INDEX main.task_group ON task(q, grp, at) WHERE state = 7 AND batch IS NULL;

CREATE TABLE main.batch(
  batch INTEGER PRIMARY KEY,
  q INTEGER NOT NULL,
  grp TEXT NOT NULL,
  deadline INTEGER NOT NULL
) STRICT;

CREATE TABLE main.ulock(
  q INTEGER NOT NULL,
  key TEXT NOT NULL,
  id TEXT NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY(q, key)
) STRICT, WITHOUT ROWID;

-- One row per queue and day (days since 1970, UTC); day -1 is the sum since the beginning.
CREATE TABLE main.stat(
  q INTEGER NOT NULL,
  day INTEGER NOT NULL,
  processed INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  PRIMARY KEY(q, day)
) STRICT, WITHOUT ROWID;

CREATE TABLE main.tally(
  q INTEGER NOT NULL,
  state INTEGER NOT NULL,
  n INTEGER NOT NULL,
  PRIMARY KEY(q, state)
) STRICT, WITHOUT ROWID;

-- `file` names the lock file and the socket of the program that holds this server.
CREATE TABLE main.server(
  server INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  file TEXT NOT NULL,
  pid INTEGER NOT NULL,
  boot TEXT NOT NULL,
  version TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  beat_at INTEGER NOT NULL,
  info BLOB,
  workers BLOB
) STRICT;

CREATE TABLE main.signal(
  n INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  at INTEGER NOT NULL
) STRICT;
