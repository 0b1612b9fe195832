-- Version 1001: sets of groups with a name and a receipt, failures of a task, tokens of a semaphore.
-- A row of `batch` is a set until its deadline; once `ended` is 1 it is the receipt of how the set was finished, kept until
-- `deadline`, which was moved then. Where SQLite forbids `main.`, our tables are written in brackets (sql.rs).
ALTER TABLE main.batch ADD COLUMN id TEXT;
ALTER TABLE main.batch ADD COLUMN ended INTEGER NOT NULL DEFAULT 0;
CREATE INDEX main.batch_deadline ON [batch](q, deadline);
CREATE INDEX main.task_batch ON [task](q, batch) WHERE batch IS NOT NULL;

-- How the last failed attempts of a task ended; `n` counts from 1.
CREATE TABLE main.failure(
  seq INTEGER NOT NULL,
  n INTEGER NOT NULL,
  at INTEGER NOT NULL,
  error TEXT NOT NULL,
  PRIMARY KEY(seq, n)
) STRICT, WITHOUT ROWID;

-- A trigger, because programs that know version 1000 alone delete tasks as well, and the next task may get the same `seq`.
-- A task that never failed pays for the comparison alone.
CREATE TRIGGER main.task_gone AFTER DELETE ON [task] WHEN old.failed_at IS NOT NULL
BEGIN
  DELETE FROM [failure] WHERE seq = old.seq;
END;

CREATE TABLE main.token(
  scope TEXT NOT NULL,
  id TEXT NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY(scope, id)
) STRICT, WITHOUT ROWID;
