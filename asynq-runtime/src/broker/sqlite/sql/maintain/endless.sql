-- Active tasks with a lease that no worker of today can have given. ?1 q, ?2 latest believable end, ?3 how many.
-- Rows: seq.
SELECT seq FROM main.task WHERE q = ?1 AND state = 1 /* active */ AND at > ?2 LIMIT ?3
