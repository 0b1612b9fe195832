-- Makes a server known; the rowid is its number. ?1 name, ?2 file, ?3 pid, ?4 boot, ?5 version, ?6 now, ?7 info.
INSERT INTO main.server(name, file, pid, boot, version, started_at, beat_at, info) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7)
