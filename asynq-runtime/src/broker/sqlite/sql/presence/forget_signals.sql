-- Forgets requests that everyone has seen or nobody will. ?1 earliest to keep.
DELETE FROM main.signal WHERE n IN (SELECT n FROM main.signal WHERE at < ?1 ORDER BY n LIMIT 500)
