-- Forgets entries that nobody plans any more. ?1 now.
DELETE FROM main.cron WHERE until <= ?1
