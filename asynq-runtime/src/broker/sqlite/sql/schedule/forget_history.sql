-- Forgets that an entry has a history. ?1 entry.
DELETE FROM main.history WHERE entry = ?1
