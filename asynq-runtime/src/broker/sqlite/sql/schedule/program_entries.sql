-- The entries that a program had. ?1 program, ?2 now. Rows: info.
SELECT info FROM main.program_entry WHERE program = ?1 AND until > ?2 ORDER BY n
