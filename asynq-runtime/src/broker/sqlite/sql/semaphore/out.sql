-- How many tokens of a scope are out. ?1 scope, ?2 now. Row: n.
SELECT count(*) FROM main.token WHERE scope = ?1 AND until > ?2
