-- How the last attempts of a task failed, the newest first. ?1 queue name, ?2 id, ?3 how many. Rows: n, at, error.
SELECT f.n, f.at, f.error FROM main.task AS t JOIN main.failure AS f ON f.seq = t.seq
WHERE t.q = (SELECT q FROM main.queue WHERE name = ?1) AND t.id = ?2 ORDER BY f.n DESC LIMIT ?3
