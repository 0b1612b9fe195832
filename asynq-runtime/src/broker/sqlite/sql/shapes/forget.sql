-- Forgets the shapes whose time is over. The table has a row per version of a job, so that it needs no index by time.
-- 1 now
DELETE FROM main.shape WHERE until <= ?1
