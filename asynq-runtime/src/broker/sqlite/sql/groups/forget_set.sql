-- Forgets a set, or its receipt. ?1 set.
DELETE FROM main.batch WHERE batch = ?1
