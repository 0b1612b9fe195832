-- The task of an earlier tick. ?1 q, ?2 id. Row: seq, state, at, uniq, 1 if it is in a set, server, extra.
SELECT seq, state, at, uniq, batch IS NOT NULL, server, extra FROM main.task WHERE q = ?1 AND id = ?2
