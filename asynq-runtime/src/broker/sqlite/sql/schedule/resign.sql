-- Gives the lead up. ?1 program, ?2 token, ?3 now.
UPDATE main.lead SET token = '', until = 0, touched = ?3 WHERE program = ?1 AND token = ?2
