-- Version 1007: the shapes of jobs' arguments, by which programs of other versions read their payloads. Times are Unix
-- milliseconds; a row whose time has passed counts as gone.
CREATE TABLE main.shape(
  job TEXT NOT NULL,
  -- What payloads carry; -1 for those that carry none.
  fingerprint INTEGER NOT NULL,
  body BLOB NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY(job, fingerprint)
) STRICT, WITHOUT ROWID;
