-- Servers and signals to them (contract: `broker/presence.rs`).

-- name: show
-- Shows that a server lives: a server without a number, which is the rowid then, or that is not on the list any more, is put on it.
-- ?1 server or null, ?2 name, ?3 file, ?4 pid, ?5 boot, ?6 version, ?7 now, ?8 info, ?9 workers or null.
INSERT INTO main.server(server, name, file, pid, boot, version, started_at, beat_at, info, workers)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, ?9)
ON CONFLICT(server) DO UPDATE SET beat_at = excluded.beat_at, info = excluded.info, workers = excluded.workers
ON CONFLICT DO NOTHING;

-- name: forget_name
-- Takes an earlier server of the same name off the list. ?1 name.
DELETE FROM main.server WHERE name = ?1;

-- name: leave
-- Takes a server off the list. ?1 server.
DELETE FROM main.server WHERE server = ?1;

-- name: alive
-- Servers whose last beat is recent. ?1 earliest beat. Rows: info, workers, file, beat_at.
SELECT info, workers, file, beat_at FROM main.server WHERE beat_at > ?1;

-- name: everyone
-- Every server on the list. Rows: server, file, beat_at.
SELECT server, file, beat_at FROM main.server;

-- name: runs_something
-- Whether a server holds a task. ?1 server. Row: 0 or 1.
SELECT EXISTS (SELECT 1 FROM main.task AS t INDEXED BY task_lease WHERE t.state = 1 /* active */ AND t.server = ?1);

-- name: ask_cancel
-- Asks the server that runs a task to cancel it. ?1 id, ?2 now.
INSERT INTO main.signal(kind, id, at) VALUES ('cancel', ?1, ?2);

-- name: forget_signals
-- Forgets old requests, which all living servers have read. ?1 earliest to keep.
DELETE FROM main.signal WHERE n IN (SELECT n FROM main.signal WHERE at < ?1 ORDER BY n LIMIT 500);

-- name: last_signal
-- The newest request so far. Row: n.
SELECT coalesce((SELECT max(n) FROM main.signal), 0);

-- name: new_cancels
-- Cancel requests after one. ?1 n, ?2 how many. Rows: n, id.
SELECT n, id FROM main.signal WHERE n > ?1 AND kind = 'cancel' ORDER BY n LIMIT ?2;
