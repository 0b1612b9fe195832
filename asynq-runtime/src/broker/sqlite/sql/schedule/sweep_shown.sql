-- Takes the entries of schedulers that do not live off the list. ?1 now.
DELETE FROM main.shown WHERE until <= ?1
