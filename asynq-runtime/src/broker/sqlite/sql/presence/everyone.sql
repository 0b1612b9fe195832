-- Every server on the list. Rows: server, file, beat_at.
SELECT server, file, beat_at FROM main.server
