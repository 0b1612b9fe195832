-- Writes the leader of a program. ?1 program, ?2 token, ?3 revision, ?4 until, ?5 wanted, ?6 wanted_until, ?7 now.
INSERT INTO main.lead(program, token, revision, until, wanted, wanted_until, touched) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT(program) DO UPDATE SET token = excluded.token, revision = excluded.revision, until = excluded.until,
  wanted = excluded.wanted, wanted_until = excluded.wanted_until, touched = excluded.touched
