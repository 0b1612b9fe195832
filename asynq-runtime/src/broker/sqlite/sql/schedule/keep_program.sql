-- Keeps an entry of a program. ?1 program, ?2 its place, ?3 info, ?4 until.
INSERT INTO main.program_entry(program, n, info, until) VALUES (?1, ?2, ?3, ?4)
