-- Forgets entries that no program plans any more. ?1 now.
DELETE FROM main.cron WHERE until <= ?1
