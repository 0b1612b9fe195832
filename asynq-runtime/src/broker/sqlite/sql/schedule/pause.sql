-- Pauses an entry or lets it go on. ?1 queue, ?2 entry, ?3 1 to pause it, ?4 now.
UPDATE main.cron SET paused = ?3 WHERE queue = ?1 AND entry = ?2 AND paused <> ?3 AND until > ?4
