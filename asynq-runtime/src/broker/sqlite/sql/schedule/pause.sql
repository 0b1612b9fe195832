-- Pauses or resumes an entry: after a resume, its next tick is the first after now. ?1 queue, ?2 entry, ?3 1 to pause it, ?4 now.
UPDATE main.cron SET paused = ?3, last = CASE ?3 WHEN 1 THEN last ELSE MAX(last, ?4) END
WHERE queue = ?1 AND entry = ?2 AND paused <> ?3 AND until > ?4
