-- Pauses an entry or lets it go on.
-- KEYS     1 x:cron:ENTRY
-- ARGV     1 paused? 0|1
-- Returns  1 if that changed anything, else 0
local entry, failed = read_entry(KEYS[1])
if failed then return failed end
local paused = ARGV[1] == '1'
if not entry or entry.paused == paused then return 0 end
-- As the first write it lets the script run when memory is full.
redis.call('HDEL', KEYS[1], 'paused')
if paused then redis.call('HSET', KEYS[1], 'paused', '1') end
return 1
