-- Until when a task holds a unique lock. ?1 q, ?2 key, ?3 id, ?4 now. Row: until; none if it does not hold it.
SELECT until FROM main.ulock WHERE q = ?1 AND key = ?2 AND id = ?3 AND until > ?4
