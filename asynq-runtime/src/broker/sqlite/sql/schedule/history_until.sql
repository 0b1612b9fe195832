-- Until when there is a history of an entry. ?1 entry. Row: until.
SELECT until FROM main.history WHERE entry = ?1
