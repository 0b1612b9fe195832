-- Reads the numbers of one queue.
-- KEYS     1 pending · 2 active · 3 scheduled · 4 retry · 5 archived · 6 completed · 7 groups · 8 paused
--          · 9 processed:DATE · 10 failed:DATE · 11 processed · 12 failed
-- ARGV     1 now · 2 prefix of the queue's keys
-- Returns  where the walk over the groups goes on ('' at its end): later groups are not counted · how many groups are counted
--          · now ns · pending · active · scheduled · retry · archived · completed · aggregating · paused 0|1
--          · processed, failed today · processed, failed in all · since when the head of pending waits, or a due task that
--          waits longer, ns ('' none)
local call = redis.call
local now_s, now_ns = clock(ARGV[1])
local names, next_step = step_of(KEYS[7], '0')
local aggregating = 0
for _, group in ipairs(names) do
  aggregating = aggregating + size_of(ARGV[2] .. 'g:' .. group)
end
local since = ''
local head = call('LINDEX', KEYS[1], -1)
if head then since = peek('HGET', ARGV[2] .. 't:' .. head, 'pending_since') end
-- A due task that no server forwards is late as well.
for i = 3, 4 do
  local due = tonumber(call('ZRANGE', KEYS[i], 0, 0, 'WITHSCORES')[2])
  if due and due <= now_s and due * 1e9 < (tonumber(since) or math.huge) then since = whole(due) .. '000000000' end
end
local counters = call('MGET', KEYS[9], KEYS[10], KEYS[11], KEYS[12])
return {
  next_step,
  #names,
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
