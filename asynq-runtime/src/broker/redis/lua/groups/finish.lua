-- Ends a set: stores the tasks that were made of it, lets some of its tasks run alone, deletes the others. Either all of
-- this happens or nothing (docs/design/failures.md#a-set-is-aggregated-twice).
-- KEYS     1 aggregation_sets · 2 the set · 3 x:set:.. (receipt) · 4 pending · 5 scheduled · 6 x:due · 7 groups
--          · 8.. one task hash per made task, then their unique locks, then their groups
-- ARGV     1 now · 2 prefix of the queue's keys · 3 sent before? 0|1 · 4 seconds the receipt is kept · 5 made tasks
--          · 6 tasks that run alone · 7 locks; then
--          per made task: id · msg · when (as in enqueue.lua) · lock (index in KEYS, 0 none) · lock seconds · x ('' none)
--          · group ('' none); per task that runs alone: id; per lock that a message names: id · key
-- Returns  o and '' (done, now or before) · l and '' (the set is gone) · c and an id (taken) · d and the holder of a lock
--          · w and a key of a foreign type
local call = redis.call
local now_s, now_ns, now_ms = clock(ARGV[1])
local prefix, again = ARGV[2], ARGV[3] == '1'
local n = tonumber(ARGV[5])
-- This call removes nothing; as the first write it lets the script run when memory is full.
call('ZREM', KEYS[1], '')
probe(prefix .. 'x:absent')

if again and call('EXISTS', KEYS[3]) == 1 then return { 'o', '' } end
local ids = peek('ZRANGE', KEYS[2], 0, -1)
if not call('ZSCORE', KEYS[1], KEYS[2]) or ids.err or #ids == 0 then
  -- An earlier send of this call ended the set, and its receipt is gone (failover): ids of made tasks are derived from the set's
  -- id.
  if again and n > 0 and call('EXISTS', KEYS[8]) == 1 then return { 'o', '' } end
  return { 'l', '' }
end

local made, alone, locks = {}, {}, {}
local p = 8
for i = 1, n do
  made[i] = {
    key = KEYS[7 + i], id = ARGV[p], msg = ARGV[p + 1], due = due_at(ARGV[p + 2], now_ms),
    lock = KEYS[tonumber(ARGV[p + 3])] or '', seconds = tonumber(ARGV[p + 4]), x = ARGV[p + 5], group = ARGV[p + 6],
  }
  p = p + 7
end
for _ = 1, tonumber(ARGV[6]) do
  alone[ARGV[p]] = true
  p = p + 1
end
for _ = 1, tonumber(ARGV[7]) do
  locks[ARGV[p]] = ARGV[p + 1]
  p = p + 2
end

-- The tasks that are still here, by outcome; a task that lives elsewhere by now is not changed.
local running, deleted, freed, kept = {}, {}, {}, {}
for _, id in ipairs(ids) do
  local key = prefix .. 't:' .. id
  local task = peek('HMGET', key, 'state', 'unique_key')
  if not task.err and task[1] == 'aggregating' then
    if alone[id] then
      running[#running + 1] = id
    else
      deleted[#deleted + 1] = key
    end
    local lock = task[2] or locks[id] or ''
    if string.sub(lock, 1, #prefix) == prefix then
      if alone[id] then kept[id] = lock elseif peek('GET', lock) == id then freed[lock] = true end
    end
  end
end

-- The containers that are needed, each with its type.
local keys = { prefix = prefix, pending = KEYS[4], scheduled = KEYS[5], due = KEYS[6], groups = KEYS[7] }
local wanted = {}
if #running > 0 then wanted[KEYS[4]] = 'list' end
local names, holders = {}, {}
for _, task in ipairs(made) do
  if names[task.id] or call('EXISTS', task.key) == 1 then return { 'c', task.id } end
  names[task.id] = true
  if task.lock ~= '' then
    local holder = holders[task.lock] or holder_of(task.lock, prefix)
    if holder and (holders[task.lock] or not freed[task.lock]) then return { 'd', holder } end
    holders[task.lock] = task.id
  end
  local needed
  task.state, needed = destination(task.due, task.group, keys, now_ms)
  for key, kind in pairs(needed) do wanted[key] = kind end
end
for key, kind in pairs(wanted) do
  if not fits(key, kind) then return { 'w', key } end
end

-- From here on nothing can fail that an enqueue does not need as well.
for lock in pairs(freed) do call('DEL', lock) end
for _, id in ipairs(running) do
  local key = prefix .. 't:' .. id
  call('LPUSH', KEYS[4], id)
  call('HSET', key, 'state', 'pending', 'pending_since', now_ns)
  -- A retry must not lead back to the group. asynq names the lock of a grouped task in the message alone; without its group the
  -- task needs the lock in its hash, where the server that ends the task looks.
  if kept[id] then call('HSET', key, 'unique_key', kept[id]) end
  call('HDEL', key, 'crashes', 'group')
end
for _, task in ipairs(made) do store_new(task, keys, now_s, now_ns, now_ms) end
for i = 1, #deleted, 100 do call('DEL', unpack(deleted, i, math.min(i + 99, #deleted))) end
call('DEL', KEYS[2])
call('ZREM', KEYS[1], KEYS[2])
call('SET', KEYS[3], 'o', 'EX', tonumber(ARGV[4]))
return { 'o', '' }
