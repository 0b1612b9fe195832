-- How many tokens of a scope are out, and whether the task has one. ?1 scope, ?2 now, ?3 task. Row: n, 0 or 1.
SELECT count(*), coalesce(max(id = ?3), 0) FROM main.token WHERE scope = ?1 AND until > ?2
