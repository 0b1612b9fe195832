-- Makes a server known again under its old number. ?1 server, ?2 name, ?3 file, ?4 pid, ?5 boot, ?6 version, ?7 now,
-- ?8 info, ?9 workers.
INSERT INTO main.server(server, name, file, pid, boot, version, started_at, beat_at, info, workers)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, ?9) ON CONFLICT DO NOTHING
