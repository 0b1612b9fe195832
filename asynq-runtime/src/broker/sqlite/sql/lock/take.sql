-- Takes a unique lock that is free, whose time has passed, or that an earlier task of this id left behind; one change means it
-- is ours.
-- ?1 q, ?2 key, ?3 id, ?4 until, ?5 now.
INSERT INTO main.ulock(q, key, id, until) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT(q, key) DO UPDATE SET id = excluded.id, until = excluded.until WHERE until <= ?5 OR id = excluded.id
