-- Runs, archives or deletes one slice of the tasks of a state or of a group, in the order of the listing.
-- KEYS     1-10 as places.lua says · 11 x:absent
-- ARGV     1 now · 2 prefix of the queue's keys · 3 run, archive or delete · 4 limit (at most 100) · 5 state
--          · 6 group ('' all) · 7 where the walk over the groups is
-- A task that a move between queues holds stays as it is; such tasks are the last of the scheduled.
-- Returns  tasks changed · ids without a task that were removed · 1 if more are chosen, else 0
--          · where the walk over the groups goes on ('' at its end)
local now_s, now_ns, now_ms = clock(ARGV[1])
local op, limit, state = ARGV[3], tonumber(ARGV[4]), ARGV[5]
-- This call removes nothing; as the first write it lets the script run when memory is full.
call('ZREM', KEYS[3], '')
-- This call changes nothing; a target of a foreign type stops the script here.
if op == 'run' then call('LLEN', KEYS[1]) elseif op == 'archive' then call('ZCARD', KEYS[6]) end

-- The ids of the slice, oldest first, the group of each where they have one, and how many there are in all.
local ids, groups, total, next_step = {}, {}, 0, ''
if state == 'pending' then
  total = call('LLEN', KEYS[1])
  local found = limit > 0 and call('LRANGE', KEYS[1], -limit, -1) or {}
  for i = #found, 1, -1 do ids[#ids + 1] = found[i] end
elseif state == 'aggregating' then
  local names = { ARGV[6] }
  if ARGV[6] == '' then
    names, next_step = step_of(KEYS[9], ARGV[7])
  end
  for _, group in ipairs(names) do
    local name = prefix .. 'g:' .. group
    local length = size_of(name)
    total = total + length
    local room = math.min(limit - #ids, length)
    for _, id in ipairs(room > 0 and call('ZRANGE', name, 0, room - 1) or {}) do
      ids[#ids + 1] = id
      groups[#ids] = group
    end
  end
else
  total = call('ZCARD', zsets[state])
  ids = limit > 0 and call('ZRANGE', zsets[state], 0, limit - 1) or {}
end

-- All reads come first, so that a foreign key stops nothing half way. Where asynq wrote a lock into the message alone, messages are
-- read: after so many bytes the rest is left to the next slice.
local MOST_READ = 1048576
local tasks, held, ghosts, seen, read = {}, {}, 0, {}, 0
for i, id in ipairs(ids) do
  if read > MOST_READ then
    for j = #ids, i, -1 do ids[j], groups[j] = nil, nil end
    break
  end
  local key = prefix .. 't:' .. id
  local task = peek('HMGET', key, 'state', 'group', 'unique_key', 'x')
  local here = not task.err and not seen[id] and (task[1] or call('EXISTS', key) == 1)
  -- An id that lies here by mistake must not change a task that lives elsewhere.
  if here and task[1] ~= state then
    here = not is_there(task[1], id, task[2]) and not (task[1] == 'active' and call('ZSCORE', KEYS[3], id))
  elseif here and groups[i] and task[2] and task[2] ~= groups[i] then
    here = not is_there(state, id, task[2])
  end
  if here and is_held(KEYS[4], task[1], id, key) then
    held[#held + 1] = id
  elseif here then
    if task[2] and not task[3] then read = read + call('HSTRLEN', key, 'msg') end
    tasks[#tasks + 1] = { id, key, lock_of(key, task[3], task[2]), task[4] }
  elseif not seen[id] then
    ghosts = ghosts + 1
  end
  seen[id] = true
end

local targets = {}
for _, task in ipairs(tasks) do
  if op == 'archive' then targets[#targets + 1] = whole(now_s) end
  targets[#targets + 1] = task[1]
end
-- The target is written first: whatever happens, every task is in some place.
if #targets > 0 and op == 'run' then call('LPUSH', KEYS[1], unpack(targets)) end
if #targets > 0 and op == 'archive' then call('ZADD', KEYS[6], unpack(targets)) end
if #ids > 0 then
  if state == 'pending' then
    call('LTRIM', KEYS[1], 0, -#ids - 1)
  elseif state == 'aggregating' then
    for i, id in ipairs(ids) do leave(state, id, groups[i]) end
  else
    call('ZREMRANGEBYRANK', zsets[state], 0, #ids - 1)
    if state == 'scheduled' or state == 'retry' then
      local exact = {}
      for i, id in ipairs(ids) do exact[i] = string.sub(state, 1, 1) .. ':' .. id end
      pcall('ZREM', KEYS[8], unpack(exact))
      for _, id in ipairs(held) do call('ZADD', KEYS[4], never, id) end
    end
  end
end
for _, task in ipairs(tasks) do
  local id, key, lock = task[1], task[2], task[3]
  if op == 'run' then
    run_alone(key, lock, now_ns, now_ms)
  elseif op == 'archive' then
    call('HSET', key, 'state', 'archived')
    unlock_archived(lock, id, task[4])
  else
    unlock(lock, id)
    call('DEL', key)
  end
end
return { #tasks, ghosts, total > #ids and #held == 0 and 1 or 0, next_step }
