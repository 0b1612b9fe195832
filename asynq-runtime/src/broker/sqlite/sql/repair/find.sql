-- One task, to change it. ?1 q, ?2 id. Row: seq, id, state, at, uniq, extra, 1 if it is in a set, retried,
-- retention in seconds.
SELECT seq, id, state, at, uniq, extra, batch IS NOT NULL, retried, retention FROM main.task WHERE q = ?1 AND id = ?2
