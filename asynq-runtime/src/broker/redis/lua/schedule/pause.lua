-- Pauses or resumes an entry. The next tick after a resume is the first after now, even if no scheduler passed the ticks of the
-- pause.
-- KEYS     1 x:cron:ENTRY
-- ARGV     1 now · 2 paused? 0|1
-- Returns  1 if that changed anything, else 0
local _, _, now_ms = clock(ARGV[1])
local entry, failed = read_entry(KEYS[1])
if failed then return failed end
local paused = ARGV[2] == '1'
if not entry or entry.paused == paused then return 0 end
-- As the first write HDEL lets the script run when memory is full.
redis.call('HDEL', KEYS[1], 'paused')
if paused then
  redis.call('HSET', KEYS[1], 'paused', '1')
else
  redis.call('HSET', KEYS[1], 'last', whole(math.max(now_ms, entry.last)))
end
return 1
