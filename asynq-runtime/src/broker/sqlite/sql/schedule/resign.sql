-- Gives the lead up. ?1 token, ?2 now.
UPDATE main.leader SET token = '', until = 0, touched = ?2 WHERE one = 1 AND token = ?1
