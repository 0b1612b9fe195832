-- Reads the state of an entry.
-- KEYS     1 x:cron:ENTRY
-- ARGV     1 now
-- Returns  now ms · and, if the entry is known: spec · zone · revision · last tick ms · previous task ('' none) · paused 0|1
local _, _, now_ms = clock(ARGV[1])
local entry, failed = read_entry(KEYS[1])
return failed or answer_of(entry, now_ms)
