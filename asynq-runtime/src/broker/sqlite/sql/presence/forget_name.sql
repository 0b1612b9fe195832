-- Takes an earlier server of the same name off the list. ?1 name.
DELETE FROM main.server WHERE name = ?1
