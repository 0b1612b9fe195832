-- The average size of the first tasks in a state, without the overhead of the file for each row.
-- ?1 q, ?2 state, ?3 how many to weigh. Row: bytes or null.
SELECT avg(s.bytes) FROM (
  SELECT octet_length(t.id) + octet_length(t.type) + coalesce(octet_length(t.uniq), 0) + coalesce(octet_length(t.grp), 0)
    + coalesce(octet_length(t.err), 0) + coalesce(octet_length(t.extra), 0) + coalesce(octet_length(t.progress_note), 0)
    + coalesce(octet_length(b.msg), 0) + coalesce(octet_length(b.result), 0)
    + (SELECT coalesce(sum(octet_length(f.error)), 0) FROM main.failure AS f WHERE f.seq = t.seq) AS bytes
  FROM main.task AS t LEFT JOIN main.body AS b ON b.seq = t.seq
  WHERE t.q = ?1 AND t.state = ?2 ORDER BY t.at, t.seq LIMIT ?3) AS s
