-- Frees a unique lock, only its owner's. ?1 q, ?2 key, ?3 id.
DELETE FROM main.ulock WHERE q = ?1 AND key = ?2 AND id = ?3
