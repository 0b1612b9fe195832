-- Takes a unique lock that is free, whose time has passed, or that an earlier task left behind: a task of this id, or one that
-- is gone. One change means that the task holds it.
-- ?1 q, ?2 key, ?3 id, ?4 until, ?5 now.
INSERT INTO main.ulock AS held(q, key, id, until) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT(q, key) DO UPDATE SET id = excluded.id, until = excluded.until WHERE until <= ?5 OR id = excluded.id
  OR NOT EXISTS (SELECT 1 FROM main.task AS holder WHERE holder.q = ?1 AND holder.id = held.id)
