-- Active tasks of a server. ?1 q, ?2 server, ?3 how many. Rows: as maintain/lapsed.
SELECT seq, id, run, since FROM main.task WHERE q = ?1 AND state = 1 /* active */ AND server = ?2 ORDER BY at, seq LIMIT ?3
