-- Sets the extra facts of a task, which say whether its run is its last because it was replaced. ?1 seq, ?2 extra.
UPDATE main.task SET extra = ?2 WHERE seq = ?1
