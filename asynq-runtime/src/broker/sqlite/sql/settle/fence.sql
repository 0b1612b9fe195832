-- A task, if a run still holds it. ?1 seq, ?2 server, ?3 run, ?4 id. Row: q, uniq, extra.
SELECT q, uniq, extra FROM main.task WHERE seq = ?1 AND state = 1 /* active */ AND server = ?2 AND run = ?3 AND id = ?4
