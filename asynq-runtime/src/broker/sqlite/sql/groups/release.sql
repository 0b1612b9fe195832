-- Returns the tasks of a set to their group, as if they had never left it. ?1 q, ?2 set.
UPDATE main.task SET batch = NULL WHERE q = ?1 AND batch = ?2
