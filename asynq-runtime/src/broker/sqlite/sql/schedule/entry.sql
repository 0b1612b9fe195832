-- A periodic entry. ?1 queue, ?2 entry, ?3 now. Row: spec, zone, revision, last, previous, paused.
SELECT spec, zone, revision, last, previous, paused FROM main.cron
WHERE queue = ?1 AND entry = ?2 AND until > ?3
