-- Takes entries of schedulers off the list that do not live. ?1 now.
DELETE FROM main.shown WHERE until <= ?1
