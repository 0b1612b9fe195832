-- Stores an entry. ?1 queue, ?2 entry, ?3 spec, ?4 zone, ?5 revision, ?6 last, ?7 previous, ?8 paused, ?9 until.
INSERT INTO main.cron(queue, entry, spec, zone, revision, last, previous, paused, until)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT(queue, entry) DO UPDATE SET spec = excluded.spec, zone = excluded.zone, revision = excluded.revision,
  last = excluded.last, previous = excluded.previous, paused = excluded.paused, until = excluded.until
