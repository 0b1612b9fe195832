-- Stores how far a run got. ?1 seq, ?2 checkpoint.
UPDATE main.body SET checkpoint = ?2 WHERE seq = ?1
