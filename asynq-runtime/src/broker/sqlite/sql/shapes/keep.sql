-- Keeps a shape, or replaces the one that is there.
-- 1 name of the job · 2 fingerprint, -1 for none · 3 the shape · 4 until when
INSERT INTO main.shape(job, fingerprint, body, until) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT(job, fingerprint) DO UPDATE SET body = excluded.body, until = excluded.until
