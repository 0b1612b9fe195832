-- Cancel requests after one. ?1 n, ?2 how many. Rows: n, id.
SELECT n, id FROM main.signal WHERE n > ?1 AND kind = 'cancel' ORDER BY n LIMIT ?2
