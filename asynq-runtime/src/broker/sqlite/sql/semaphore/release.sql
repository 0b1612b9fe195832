-- Takes a token back; no change if the task has none. ?1 scope, ?2 task.
DELETE FROM main.token WHERE scope = ?1 AND id = ?2
