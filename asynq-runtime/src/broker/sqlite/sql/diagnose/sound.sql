-- The first damage in the file, all of which is read. Row: 'ok' or the first damage.
SELECT quick_check FROM pragma_quick_check LIMIT 1
