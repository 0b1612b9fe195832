-- What is damaged in the file; it reads all of it. Row: 'ok' or the first damage.
SELECT quick_check FROM pragma_quick_check LIMIT 1
