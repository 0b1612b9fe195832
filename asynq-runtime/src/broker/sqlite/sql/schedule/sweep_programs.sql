-- Forgets the entries of programs that have not been there for long. ?1 now.
DELETE FROM main.program_entry WHERE until <= ?1
