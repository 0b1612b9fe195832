-- Archived tasks, oldest first. ?1 q, ?2 how many. Rows: seq, at, id, uniq.
SELECT seq, at, id, uniq FROM main.task WHERE q = ?1 AND state = 5 /* archived */ ORDER BY at, seq LIMIT ?2
