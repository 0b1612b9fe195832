-- Asks the server that runs a task to cancel it. ?1 id, ?2 now.
INSERT INTO main.signal(kind, id, at) VALUES ('cancel', ?1, ?2)
