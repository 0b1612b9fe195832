-- How far the runs of a task got. ?1 seq. Row: checkpoint or null.
SELECT checkpoint FROM main.body WHERE seq = ?1
