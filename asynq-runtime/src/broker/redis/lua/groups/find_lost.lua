-- Makes groups known that have tasks and no name, as asynq's forwarder and reclaim leave them, and sets that lost their
-- deadline (docs/design/failures.md#a-group-is-forgotten).
-- KEYS     1 groups · 2 aggregation_sets · 3 x:absent · then groups and sets of the queue that were found among all
--          keys (at most 100)
-- ARGV     1 now · 2 prefix of the queue's keys
-- Returns  groups and sets made known
local call = redis.call
local now_s = clock(ARGV[1])
local groups = ARGV[2] .. 'g:'
-- This call removes nothing; as the first write it lets the script run when memory is full.
call('ZREM', KEYS[2], '')

-- Returns the group of a set that is not known as a set: its tasks name the group.
local function left_by(key, name)
  local group, id = string.match(name, '^(.+):(%x+%-%x+%-%x+%-%x+%-%x+)$')
  if not id then return nil end
  local first = call('ZRANGE', key, 0, 0)[1]
  local named = first and peek('HGET', ARGV[2] .. 't:' .. first, 'group')
  return named == group and group or nil
end

local repaired = 0
for i = 4, #KEYS do
  local key = KEYS[i]
  local name = string.sub(key, #groups + 1)
  local is_there = call('TYPE', key).ok == 'zset'
  if is_there and name ~= '' and not call('ZSCORE', KEYS[2], key) and call('SISMEMBER', KEYS[1], name) == 0 then
    if left_by(key, name) then
      call('ZADD', KEYS[2], whole(now_s), key)
    else
      call('SADD', KEYS[1], name)
    end
    repaired = repaired + 1
  end
end
return repaired
