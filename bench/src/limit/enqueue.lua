-- Stores new tasks of one queue, as asynq's enqueue does for each.
-- KEYS     1 pending
-- ARGV     1 prefix of task hashes · 2 now, nanoseconds; then per task: id · msg
-- Returns  how many were stored
local call, prefix, keys, ids = redis.call, ARGV[1], {}, {}
for i = 3, #ARGV, 2 do
  keys[#keys + 1] = prefix .. ARGV[i]
  ids[#ids + 1] = ARGV[i]
end
if call('EXISTS', unpack(keys)) > 0 then return redis.error_reply('an id is taken') end
for i, key in ipairs(keys) do
  call('HSET', key, 'msg', ARGV[2 * i + 2], 'state', 'pending', 'pending_since', ARGV[2])
end
call('LPUSH', KEYS[1], unpack(ids))
return #ids
