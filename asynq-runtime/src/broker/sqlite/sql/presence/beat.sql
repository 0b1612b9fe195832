-- Shows that a server lives. ?1 server, ?2 now, ?3 info, ?4 workers.
UPDATE main.server SET beat_at = ?2, info = ?3, workers = ?4 WHERE server = ?1
