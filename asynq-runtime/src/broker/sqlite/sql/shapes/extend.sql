-- Keeps a shape for longer.
-- 1 name of the job · 2 fingerprint, -1 for none · 3 until when
UPDATE main.shape SET until = ?3 WHERE job = ?1 AND fingerprint = ?2
