-- Forgets the enqueues of an entry. ?1 entry.
DELETE FROM main.enqueued WHERE entry = ?1
