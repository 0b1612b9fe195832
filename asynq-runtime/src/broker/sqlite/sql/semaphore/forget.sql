-- Forgets tokens whose time is over. ?1 scope, ?2 now.
DELETE FROM main.token WHERE scope = ?1 AND until <= ?2
