-- A page of the history of an entry, the newest first. ?1 entry, ?2 now, ?3 how many, ?4 after how many. Rows: event.
SELECT event FROM main.enqueued
WHERE entry = ?1 AND EXISTS (SELECT 1 FROM main.history WHERE entry = ?1 AND until > ?2)
ORDER BY at DESC, event DESC LIMIT ?3 OFFSET ?4
