-- Servers whose last beat is recent. ?1 earliest beat. Rows: info, workers.
SELECT info, workers FROM main.server WHERE beat_at > ?1
