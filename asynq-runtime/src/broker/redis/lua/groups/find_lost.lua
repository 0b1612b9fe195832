-- Makes groups known that have tasks and no name, as asynq's forwarder and reclaim leave them, and sets that lost their
-- deadline (docs/design/failures.md#a-group-is-forgotten): one slice of all keys of the server, whichever queue they are of.
-- KEYS     1 groups · 2 aggregation_sets
-- ARGV     1 now · 2 prefix of the queue's keys · 3 pattern of its groups · 4 where to go on, '0' at the beginning
--          · 5 how many keys to look at
-- Returns  groups and sets made known · where to go on, '0' at the end
local call = redis.call
local now_s = clock(ARGV[1])
local groups = ARGV[2] .. 'g:'
-- Removes nothing; as the first write it lets the script run when memory is full.
call('ZREM', KEYS[2], '')

-- The group of a set that nobody knows as one: its tasks name it.
local function left_by(key, name)
  local group, id = string.match(name, '^(.+):(%x+%-%x+%-%x+%-%x+%-%x+)$')
  if not id then return nil end
  local first = call('ZRANGE', key, 0, 0)[1]
  local named = first and redis.pcall('HGET', ARGV[2] .. 't:' .. first, 'group')
  return named == group and group or nil
end

local found = call('SCAN', ARGV[4], 'MATCH', ARGV[3], 'COUNT', tonumber(ARGV[5]), 'TYPE', 'zset')
local mended = 0
for _, key in ipairs(found[2]) do
  local name = string.sub(key, #groups + 1)
  if name ~= '' and not call('ZSCORE', KEYS[2], key) and call('SISMEMBER', KEYS[1], name) == 0 then
    if left_by(key, name) then
      call('ZADD', KEYS[2], whole(now_s), key)
    else
      call('SADD', KEYS[1], name)
    end
    mended = mended + 1
  end
end
return { mended, found[1] }
