-- Takes a set out of a group if the group is ripe, by whole seconds as asynq does.
-- KEYS     1 the group · 2 groups · 3 aggregation_sets · 4 the set to make · 5 x:orphans
-- ARGV     1 now · 2 prefix of task hashes · 3 name of the group · 4 grace seconds · 5 longest wait seconds ('' none)
--          · 6 size that makes the group ripe ('' none) · 7 most tasks · 8 bytes of messages after which the set is full
--          · 9 seconds until the deadline
-- Returns  nothing if the group is not ripe; 1 if ids without a task were taken out of it, and it must be looked at again;
--          else the deadline, Unix seconds · how often such a set came back at its deadline · then per task: id · msg · x ('' none)
local call = redis.call
local now_s = clock(ARGV[1])
local rules, most = rules_of(ARGV[4], ARGV[5], ARGV[6]), tonumber(ARGV[7])
-- ZREM removes nothing; as the first write it lets the script run when memory is full. Each of the three calls stops the script
-- before anything is changed if its key is of a foreign type.
call('ZREM', KEYS[3], '')
call('SCARD', KEYS[2])
call('ZCARD', KEYS[1])

local function in_slices(command, key, items)
  for i = 1, #items, 100 do call(command, key, unpack(items, i, math.min(i + 99, #items))) end
end

local waiting = call('ZCARD', KEYS[1])
if waiting == 0 then
  call('SREM', KEYS[2], ARGV[3])
  return false
end
if not is_ripe(KEYS[1], waiting, rules, now_s) then return false end

local found, members, ghosts, room = { whole(now_s + tonumber(ARGV[9])), 0 }, {}, {}, tonumber(ARGV[8])
local ids = call('ZRANGE', KEYS[1], 0, most - 1, 'WITHSCORES')
for i = 1, #ids, 2 do
  if room <= 0 then break end
  local task = peek('HMGET', ARGV[2] .. ids[i], 'state', 'msg', 'x', 'crashes')
  if not task.err and task[1] == 'aggregating' and task[2] then
    room = room - #task[2]
    found[2] = math.max(found[2], tonumber(task[4] or 0) or 0)
    members[#members + 1] = ids[i + 1]
    members[#members + 1] = ids[i]
    found[#found + 1] = ids[i]
    found[#found + 1] = task[2]
    found[#found + 1] = task[3] or ''
  else
    ghosts[#ghosts + 1] = ids[i]
  end
end

-- Ids without a task here are taken out first: they must not make the group look larger or older than it is. The next call looks
-- at the rest, so that no call looks at more ids than a set may have.
if #ghosts > 0 then
  in_slices('ZREM', KEYS[1], ghosts)
  note_orphans(KEYS[5], ghosts)
  return 1
end
-- The set is made known before its tasks leave the group: after an error in between every task can be found.
in_slices('ZADD', KEYS[4], members)
call('ZADD', KEYS[3], found[1], KEYS[4])
call('ZREMRANGEBYRANK', KEYS[1], 0, #members / 2 - 1)
if #members / 2 == waiting then call('SREM', KEYS[2], ARGV[3]) end
return found
