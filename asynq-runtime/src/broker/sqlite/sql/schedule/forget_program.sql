-- Forgets the entries that a program had. ?1 program.
DELETE FROM main.program_entry WHERE program = ?1
