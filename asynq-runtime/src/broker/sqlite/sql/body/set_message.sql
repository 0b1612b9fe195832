-- Replaces a message that could not be read. ?1 seq, ?2 message.
UPDATE main.body SET msg = ?2 WHERE seq = ?1
