-- The numbers of one queue (PROTOCOL 6.5 GetQueueInfo).
-- KEYS     1 pending · 2 active · 3 scheduled · 4 retry · 5 archived · 6 completed · 7 groups · 8 paused
--          · 9 processed:DATE · 10 failed:DATE · 11 processed · 12 failed
-- ARGV     1 now · 2 prefix of the queue's keys
-- Returns  now ns · pending · active · scheduled · retry · archived · completed · aggregating · paused 0|1
--          · processed, failed today · processed, failed in all · pending_since of the oldest pending task ('' none)
local call = redis.call
local _, now_ns = clock(ARGV[1])
local aggregating = 0
for _, group in ipairs(call('SMEMBERS', KEYS[7])) do
  -- pcall: a key of a foreign type is no group.
  local size = redis.pcall('ZCARD', ARGV[2] .. 'g:' .. group)
  aggregating = aggregating + (type(size) == 'number' and size or 0)
end
local since = ''
local oldest = call('LINDEX', KEYS[1], -1)
if oldest then
  since = redis.pcall('HGET', ARGV[2] .. 't:' .. oldest, 'pending_since')
  if type(since) ~= 'string' then since = '' end
end
local counters = call('MGET', KEYS[9], KEYS[10], KEYS[11], KEYS[12])
return {
  now_ns,
  call('LLEN', KEYS[1]),
  call('LLEN', KEYS[2]),
  call('ZCARD', KEYS[3]),
  call('ZCARD', KEYS[4]),
  call('ZCARD', KEYS[5]),
  call('ZCARD', KEYS[6]),
  aggregating,
  call('EXISTS', KEYS[8]),
  counters[1] or '0',
  counters[2] or '0',
  counters[3] or '0',
  counters[4] or '0',
  since,
}
