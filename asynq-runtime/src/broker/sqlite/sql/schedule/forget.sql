-- Forgets an entry. ?1 queue, ?2 entry.
DELETE FROM main.cron WHERE queue = ?1 AND entry = ?2
