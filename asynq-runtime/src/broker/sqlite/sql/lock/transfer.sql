-- Gives a unique lock to a task, with a new time. ?1 q, ?2 key, ?3 id, ?4 until.
UPDATE main.ulock SET id = ?3, until = ?4 WHERE q = ?1 AND key = ?2
