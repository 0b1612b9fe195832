-- The holder of a unique lock. ?1 q, ?2 key. Row: id.
SELECT id FROM main.ulock WHERE q = ?1 AND key = ?2
