-- The shapes of payloads (contract: `broker/shapes.rs`).

-- name: keep
-- Keeps a shape, or replaces the one that is there.
-- 1 name of the job · 2 fingerprint, -1 for none · 3 the shape · 4 until when
INSERT INTO main.shape(job, fingerprint, body, until) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT(job, fingerprint) DO UPDATE SET body = excluded.body, until = excluded.until;

-- name: find
-- Finds a shape that is still kept.
-- 1 name of the job · 2 fingerprint, -1 for none · 3 now · 4 how many bytes of it at most
SELECT substr(body, 1, ?4) FROM main.shape WHERE job = ?1 AND fingerprint = ?2 AND until > ?3;

-- name: extend
-- Keeps a shape for longer. Within a day nothing is written: a producer of transactions asks for it with each task.
-- 1 name of the job · 2 fingerprint, -1 for none · 3 until when
UPDATE main.shape SET until = ?3 WHERE job = ?1 AND fingerprint = ?2 AND until < ?3 - 86400000;

-- name: forget
-- Forgets the shapes whose time is over. The table has a row per version of a job, so that it needs no index by time.
-- 1 now
DELETE FROM main.shape WHERE until <= ?1;
