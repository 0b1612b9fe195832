-- Archives a pending or aggregating task whose message is lost. ?1 seq, ?2 now.
UPDATE main.task SET state = 5 /* archived */, at = ?2, err = 'the message of this task is missing', failed_at = ?2 WHERE seq = ?1
