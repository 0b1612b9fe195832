-- The leader of the schedulers of a program. ?1 program. Row: token, revision, until, wanted, wanted_until, touched.
SELECT token, revision, until, wanted, wanted_until, touched FROM main.lead WHERE program = ?1
