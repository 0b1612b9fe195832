-- Looks in one step for tasks in the groups and sets of a queue, before the queue is deleted. Evictions leave names of groups
-- without tasks, and ids without a task in groups. The script removes both, so that afterwards a name means that there are tasks.
-- KEYS     1 pending · 2 active · 3 scheduled · 4 retry · 5 archived · 6 completed · 7 groups · 8 aggregation_sets
--          · then groups and sets that were found among all keys, known or not (at most 100)
-- ARGV     1 prefix of the queue's keys
-- Returns  2 there may be more: call again · 1 no task is in any of them · 0 the queue has tasks
local call = redis.call
local MOST = 100
-- Ids that one step looks at.
local room = 1000
-- This call removes nothing; as the first write it lets the script run when memory is full.
call('ZREM', KEYS[3], '')

local function kind_of(name) return call('TYPE', name).ok end
for i = 1, 6 do
  local kind = kind_of(KEYS[i])
  if (kind == 'list' and call('LLEN', KEYS[i]) > 0) or (kind == 'zset' and call('ZCARD', KEYS[i]) > 0) then return 0 end
end

-- Returns whether any task is there, and removes ids without a task; nil if there may be more ids than there was room for.
local function has_tasks(name)
  while kind_of(name) == 'zset' do
    if room <= 0 then return nil end
    local ids = call('ZRANGE', name, 0, MOST - 1)
    for _, id in ipairs(ids) do
      if call('EXISTS', ARGV[1] .. 't:' .. id) == 1 then return true end
    end
    room = room - #ids
    call('ZREM', name, unpack(ids))
  end
  return false
end

local function clear(names, gone)
  for _, name in ipairs(names) do
    local found = has_tasks(name[1])
    if found == nil then return 2 end
    if found then return 0 end
    gone(name[2])
  end
  return 1
end

local found, names, sets = {}, {}, {}
for i = 9, #KEYS do found[#found + 1] = { KEYS[i], KEYS[i] } end
if kind_of(KEYS[7]) == 'set' then
  for _, group in ipairs(call('SRANDMEMBER', KEYS[7], MOST)) do names[#names + 1] = { ARGV[1] .. 'g:' .. group, group } end
end
if kind_of(KEYS[8]) == 'zset' then
  for _, set in ipairs(call('ZRANGE', KEYS[8], 0, MOST - 1)) do sets[#sets + 1] = { set, set } end
end
local answers = {
  clear(found, function() end),
  clear(names, function(group) call('SREM', KEYS[7], group) end),
  clear(sets, function(set) call('ZREM', KEYS[8], set) end),
}
for _, answer in ipairs(answers) do
  if answer == 0 then return 0 end
end
for _, answer in ipairs(answers) do
  if answer == 2 then return 2 end
end
return (#names == MOST or #sets == MOST) and 2 or 1
