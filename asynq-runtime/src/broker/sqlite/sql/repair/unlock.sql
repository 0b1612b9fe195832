-- Frees a unique lock for a person (contract Repair::release_lock). ?1 q, ?2 key, ?3 id of its holder, ?4 whether only if the
-- holder does not exist.
DELETE FROM main.ulock WHERE q = ?1 AND key = ?2 AND id = ?3
  AND NOT (?4 AND EXISTS (SELECT 1 FROM main.task AS t WHERE t.q = ?1 AND t.id = ?3))
