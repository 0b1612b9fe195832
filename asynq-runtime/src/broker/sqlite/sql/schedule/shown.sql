-- The entries of all schedulers that live. ?1 now. Rows: info.
SELECT info FROM main.shown WHERE until > ?1 ORDER BY scheduler, n
