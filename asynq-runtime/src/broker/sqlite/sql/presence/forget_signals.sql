-- Forgets old requests, which all living servers have read. ?1 earliest to keep.
DELETE FROM main.signal WHERE n IN (SELECT n FROM main.signal WHERE at < ?1 ORDER BY n LIMIT 500)
