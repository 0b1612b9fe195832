-- Slots of jobs that limit their concurrency (contract: `broker/semaphore.rs`).

-- name: forget
-- Forgets tokens whose time is over. ?1 scope, ?2 now.
DELETE FROM main.token WHERE scope = ?1 AND until <= ?2;

-- name: out
-- How many tokens of a scope are out, without one of an earlier attempt at this task, which is over. ?1 scope, ?2 now, ?3 task,
-- ?4 whether this attempt has one: then that of the task is its own. Row: n.
SELECT count(*) FROM main.token WHERE scope = ?1 AND until > ?2 AND (id <> ?3 OR ?4);

-- name: acquire
-- Gives a token to a task, or sets a new end of the token that the task has. ?1 scope, ?2 task, ?3 until.
INSERT INTO main.token(scope, id, until) VALUES (?1, ?2, ?3)
ON CONFLICT(scope, id) DO UPDATE SET until = excluded.until;

-- name: release
-- Takes a token back; no change if the task has none until this time. ?1 scope, ?2 task, ?3 until.
DELETE FROM main.token WHERE scope = ?1 AND id = ?2 AND until = ?3;

-- name: sweep
-- Forgets tokens of all scopes whose time is over: perhaps no task ever asks for a token of their scope again. ?1 now, ?2 how many.
DELETE FROM main.token WHERE (scope, id) IN (SELECT scope, id FROM main.token WHERE until <= ?1 LIMIT ?2);
