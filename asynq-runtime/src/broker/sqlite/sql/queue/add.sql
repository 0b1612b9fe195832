-- Makes a queue known. ?1 name. No row; the rowid is its number.
INSERT INTO main.queue(name) VALUES (?1)
