-- Takes a server off the list. ?1 server.
DELETE FROM main.server WHERE server = ?1
