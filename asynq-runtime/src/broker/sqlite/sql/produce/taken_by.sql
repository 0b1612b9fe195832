-- The task that has an id already. ?1 q, ?2 id. Row: state, at, message or null.
SELECT t.state, t.at, b.msg FROM main.task AS t LEFT JOIN main.body AS b ON b.seq = t.seq WHERE t.q = ?1 AND t.id = ?2
