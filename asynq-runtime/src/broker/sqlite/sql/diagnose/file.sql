-- Facts about the file. Row: pages, bytes of a page, free pages, how it is journalled.
SELECT p.page_count, s.page_size, f.freelist_count, j.journal_mode
FROM pragma_page_count AS p, pragma_page_size AS s, pragma_freelist_count AS f, pragma_journal_mode AS j
