-- Replaces the text of a failure by its beginning. ?1 seq, ?2 number, ?3 text.
UPDATE main.failure SET error = ?3 WHERE seq = ?1 AND n = ?2
