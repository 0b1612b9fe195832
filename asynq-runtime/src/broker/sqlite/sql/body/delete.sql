-- Deletes what a task carries. ?1 seq.
DELETE FROM main.body WHERE seq = ?1
