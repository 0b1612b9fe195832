-- Forgets what an entry enqueued. ?1 entry.
DELETE FROM main.enqueued WHERE entry = ?1
