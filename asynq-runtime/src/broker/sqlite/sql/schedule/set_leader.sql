-- Writes who leads. ?1 token, ?2 revision, ?3 until, ?4 wanted, ?5 wanted_until, ?6 now.
INSERT INTO main.leader(one, token, revision, until, wanted, wanted_until, touched) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT(one) DO UPDATE SET token = excluded.token, revision = excluded.revision, until = excluded.until,
  wanted = excluded.wanted, wanted_until = excluded.wanted_until, touched = excluded.touched
