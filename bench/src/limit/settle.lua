-- Ends tasks that succeeded, each as asynq's done does; the oldest first, from the end where they are.
-- KEYS     3 active · 4 lease · 5 processed:DATE · 6 processed
-- ARGV     1 prefix of task hashes · 4 when the counter of the day expires, Unix seconds; from 5 on: ids
-- Returns  nothing
local function settle()
  local call, prefix, keys, ids = redis.call, ARGV[1], {}, {}
  local n = #ARGV - 4
  if n == 0 then return end
  for i = 1, n do
    local id = ARGV[i + 4]
    ids[i], keys[i] = id, prefix .. id
    if call('LREM', KEYS[3], -1, id) == 0 then error('not active: ' .. id) end
  end
  call('ZREM', KEYS[4], unpack(ids))
  call('DEL', unpack(keys))
  if call('INCRBY', KEYS[5], n) == n then call('EXPIREAT', KEYS[5], ARGV[4]) end
  call('INCRBY', KEYS[6], n)
end
