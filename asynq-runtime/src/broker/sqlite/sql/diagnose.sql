-- Looks for faults of the file (contract: `broker/diagnose.rs`).

-- name: file
-- Facts about the file. Row: pages, bytes of a page, free pages, how it is journalled.
SELECT p.page_count, s.page_size, f.freelist_count, j.journal_mode
FROM pragma_page_count AS p, pragma_page_size AS s, pragma_freelist_count AS f, pragma_journal_mode AS j;

-- name: sound
-- The first damage in the file, all of which is read. In a shared file only our tables are looked at, because those of the other program
-- may need functions and collations that only it has, and may hold what their constraints refuse. ?1 whether it is shared. Row: the first damage.
SELECT c.quick_check
FROM (SELECT NULL AS name WHERE NOT ?1 UNION ALL SELECT name FROM sqlite_schema WHERE ?1 AND type = 'table' AND name GLOB 'asynq_*') AS ours,
  pragma_quick_check(ours.name) AS c
WHERE c.quick_check <> 'ok' LIMIT 1;

-- name: locks
-- Locks that no task holds, among the first. ?1 q, ?2 now, ?3 how many to look at. Rows: key.
SELECT l.key
FROM (SELECT u.q, u.key, u.id FROM main.ulock AS u WHERE u.q = ?1 AND u.until > ?2 LIMIT ?3) AS l
WHERE NOT EXISTS (SELECT 1 FROM main.task AS t WHERE t.q = l.q AND t.id = l.id);

-- name: number
-- How many tasks there are in a state. ?1 q, ?2 state, ?3 where to stop counting. Row: as the tally says, as counted.
SELECT coalesce((SELECT c.n FROM main.tally AS c WHERE c.q = ?1 AND c.state = ?2), 0),
  (SELECT count(*) FROM (SELECT 1 FROM main.task AS t WHERE t.q = ?1 AND t.state = ?2 LIMIT ?3));
