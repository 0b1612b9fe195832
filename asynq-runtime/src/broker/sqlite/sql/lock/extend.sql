-- Extends a unique lock that the running task still holds. ?1 seq, ?2 server, ?3 run, ?4 id, ?5 key, ?6 until, ?7 now.
UPDATE main.ulock SET until = ?6
WHERE q = (SELECT q FROM main.task WHERE seq = ?1 AND state = 1 /* active */ AND server = ?2 AND run = ?3 AND id = ?4)
  AND key = ?5 AND id = ?4 AND until > ?7 AND until < ?6
