-- The task that holds a unique lock, by its id. ?1 q, ?2 id. Row: seq, state, at, extra, whether it is in a group.
SELECT seq, state, at, extra, grp IS NOT NULL FROM main.task WHERE q = ?1 AND id = ?2
