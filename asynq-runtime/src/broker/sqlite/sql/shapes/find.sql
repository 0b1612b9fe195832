-- Finds a shape that is still kept.
-- 1 name of the job · 2 fingerprint, -1 for none · 3 now · 4 how many bytes of it at most
SELECT substr(body, 1, ?4) FROM main.shape WHERE job = ?1 AND fingerprint = ?2 AND until > ?3
