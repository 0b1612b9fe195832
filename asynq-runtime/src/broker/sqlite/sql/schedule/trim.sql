-- Forgets the oldest of the history of an entry. ?1 entry, ?2 how many.
DELETE FROM main.enqueued WHERE (entry, at, event) IN (
  SELECT entry, at, event FROM main.enqueued WHERE entry = ?1 ORDER BY at, event LIMIT ?2)
