-- Adds an event to the history of an entry, unless it is there already. ?1 entry, ?2 Unix seconds, ?3 event.
INSERT INTO main.enqueued(entry, at, event) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING
