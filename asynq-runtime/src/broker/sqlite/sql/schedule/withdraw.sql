-- Takes the entries of a scheduler off the list. ?1 scheduler.
DELETE FROM main.shown WHERE scheduler = ?1
