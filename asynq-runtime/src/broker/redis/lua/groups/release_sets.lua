-- Releases the tasks of one set, or of all sets whose deadline has passed, to their groups, and makes the groups known. Sets of
-- asynq are released like ours. That a set of ours has lapsed is counted at its first task: its server has mostly died. A server of
-- asynq leaves a set until its deadline also where its new task was refused, so sets of asynq are not counted.
-- KEYS     1 aggregation_sets · 2 groups · 3 x:absent
-- ARGV     1 now · 2 prefix of the queue's keys · 3 the set ('' all that have lapsed) · 4 most sets · 5 most tasks; a larger set goes
--          back in parts · 6 seconds until a set is looked at again that cannot go back
-- Returns  how many sets went back · 1 if more is waiting
local call = redis.call
local now_s = clock(ARGV[1])
local prefix, most = ARGV[2] .. 'g:', tonumber(ARGV[5])

local sets = {}
if ARGV[3] == '' then
  sets = call('ZRANGEBYSCORE', KEYS[1], '-inf', whole(now_s), 'LIMIT', 0, tonumber(ARGV[4]))
elseif call('ZSCORE', KEYS[1], ARGV[3]) then
  sets = { ARGV[3] }
end
-- Without a write, a server that takes no writes now answers as well.
if #sets == 0 then return { 0, 0 } end
-- ZREM removes nothing; as the first write it lets the script run when memory is full. Both calls stop the script before anything
-- is changed if their key is of a foreign type.
call('ZREM', KEYS[1], '')
call('SCARD', KEYS[2])

local back, room = 0, most
for _, set in ipairs(sets) do
  local name = string.sub(set, 1, #prefix) == prefix and string.match(string.sub(set, #prefix + 1), '^(.+):[^:]*$')
  local size = name and peek('ZCARD', set)
  if type(size) ~= 'number' or size == 0 then
    -- The member is not a set of this queue, or the set is empty.
    call('ZREM', KEYS[1], set)
  elseif type(peek('ZCARD', prefix .. name)) == 'table' then
    -- The group of the set is of a foreign type: the set is safe where it is, and must not keep the others waiting.
    call('ZADD', KEYS[1], whole(now_s + tonumber(ARGV[6])), set)
  elseif size > room and room < most then
    -- A set that fits is never parted: a server that ends it late finds all of it or nothing.
    return { back, 1 }
  else
    local members = call('ZRANGE', set, 0, room - 1, 'WITHSCORES')
    local first = ARGV[2] .. 't:' .. members[1]
    -- The ids of our sets are UUIDs of version 7, those of asynq's sets are of version 4.
    local is_ours = string.find(set, ':%x+%-%x+%-7%x+%-%x+%-%x+$')
    local is_counted = ARGV[3] == '' and is_ours and peek('HGET', first, 'state') == 'aggregating'
    for i = 1, #members, 100 do
      local pairs_of = {}
      for j = i, math.min(i + 99, #members), 2 do
        pairs_of[#pairs_of + 1] = members[j + 1]
        pairs_of[#pairs_of + 1] = members[j]
      end
      call('ZADD', prefix .. name, unpack(pairs_of))
    end
    call('SADD', KEYS[2], name)
    -- pcall: the tasks go back also where the count cannot be written.
    if is_counted then redis.pcall('HINCRBY', first, 'crashes', 1) end
    if size > room then
      call('ZREMRANGEBYRANK', set, 0, room - 1)
      return { back, 1 }
    end
    call('DEL', set)
    call('ZREM', KEYS[1], set)
    back = back + 1
    room = room - size
  end
end
return { back, #sets >= tonumber(ARGV[4]) and 1 or 0 }
