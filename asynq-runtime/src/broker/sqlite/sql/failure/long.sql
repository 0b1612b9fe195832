-- Failures of a task whose text has more bytes. ?1 seq, ?2 bytes. Rows: number, text.
SELECT n, error FROM main.failure WHERE seq = ?1 AND octet_length(error) > ?2
