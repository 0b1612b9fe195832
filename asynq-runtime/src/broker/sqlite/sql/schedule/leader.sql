-- Who leads the schedulers. Row: token, revision, until, wanted, wanted_until, touched.
SELECT token, revision, until, wanted, wanted_until, touched FROM main.leader WHERE one = 1
