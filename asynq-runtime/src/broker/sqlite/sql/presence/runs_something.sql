-- Whether a server holds a task. ?1 server. Row: 0 or 1.
SELECT EXISTS (SELECT 1 FROM main.task AS t INDEXED BY task_lease WHERE t.state = 1 /* active */ AND t.server = ?1)
