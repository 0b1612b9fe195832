-- Moves due tasks of one queue to pending, or to their group (docs/design/wire.md#due-times).
-- KEYS     1 pending · 2 scheduled · 3 retry · 4 x:due · 5 groups · 6 x:absent
-- ARGV     1 now · 2 prefix of the queue's keys · 3 limit (at most 100) · 4 retry tasks to the head of pending? 0|1
-- Returns  how many were moved · 1 if more is due already
local call = redis.call
local now_s, now_ns, now_ms = clock(ARGV[1])
local prefix, limit = ARGV[2], tonumber(ARGV[3])
local zsets = { s = KEYS[2], r = KEYS[3] }
-- This call removes nothing; as the first write it lets the script run when memory is full.
call('ZREM', KEYS[2], '')
-- These calls change nothing either: a key of a foreign type stops the script here, before a task has left its place.
call('LLEN', KEYS[1])
for i = 2, 4 do call('ZCARD', KEYS[i]) end

local retries_first = ARGV[4] == '1'
local moved, pending, first = 0, {}, {}
-- The ids that leave a zset, which they do at the end: if Redis refuses a call before, every task is still in a place.
local leaving, is_leaving = { [KEYS[2]] = {}, [KEYS[3]] = {} }, { [KEYS[2]] = {}, [KEYS[3]] = {} }
local function move(id, zset)
  is_leaving[zset][id] = true
  table.insert(leaving[zset], id)
  local key = prefix .. 't:' .. id
  local task = peek('HMGET', key, 'state', 'joins', 'group')
  -- A task that was deleted must not come back as a ghost.
  if task.err or (not task[1] and call('EXISTS', key) == 0) then return end
  moved = moved + 1
  -- A task to retry has run alone, and stays so: Go leaves the name of the group on a task that a person runs. A task of an
  -- earlier version of ours names in `group` what it joins.
  local name = zset == KEYS[2] and (task[2] or task[3]) or ''
  local group = prefix .. 'g:' .. name
  -- A task whose group cannot take it runs alone; otherwise no script would ever find it again.
  if name ~= '' and fits(group, 'zset') and fits(KEYS[5], 'set') then
    call('ZADD', group, whole(now_s), id)
    call('SADD', KEYS[5], name)
    call('HSET', key, 'state', 'aggregating', 'group', name)
  else
    local target = retries_first and zset == KEYS[3] and first or pending
    target[#target + 1] = id
    call('HSET', key, 'state', 'pending', 'pending_since', now_ns)
  end
  if task[2] then call('HDEL', key, 'joins') end
end

local due = call('ZRANGEBYSCORE', KEYS[4], '-inf', whole(now_ms), 'WITHSCORES', 'LIMIT', 0, limit)
for i = 1, #due, 2 do
  local id, zset = string.sub(due[i], 3), zsets[string.sub(due[i], 1, 1)]
  call('ZREM', KEYS[4], due[i])
  -- An exact time counts only while the score of its task agrees with it.
  if zset and tonumber(call('ZSCORE', zset, id) or -1) == math.ceil(tonumber(due[i + 1]) / 1000) then move(id, zset) end
end

-- Tasks without an exact time are Go's own, due by whole seconds. Stale exact times above take no room from these tasks.
for _, zset in pairs(zsets) do
  if moved < limit then
    local ids = call('ZRANGEBYSCORE', zset, '-inf', whole(now_s), 'LIMIT', 0, limit)
    for _, id in ipairs(ids) do
      if moved >= limit then break end
      if not is_leaving[zset][id] then move(id, zset) end
    end
  end
end

if #pending > 0 then call('LPUSH', KEYS[1], unpack(pending)) end
-- Tasks are taken from the right: the task that was due first goes there last.
for i = #first, 1, -1 do call('RPUSH', KEYS[1], first[i]) end
for zset, ids in pairs(leaving) do
  if #ids > 0 then call('ZREM', zset, unpack(ids)) end
end
local more = call('ZCOUNT', KEYS[4], '-inf', whole(now_ms)) > 0
  or call('ZCOUNT', KEYS[2], '-inf', whole(now_s)) > 0
  or call('ZCOUNT', KEYS[3], '-inf', whole(now_s)) > 0
return { moved, more and 1 or 0 }
