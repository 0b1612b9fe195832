-- Looks at some tasks and locks of a queue, whose keys were found among all keys of the server, and changes nothing.
-- KEYS     1-10 as places.lua says · 11.. tasks and locks
-- ARGV     1 now · 2 prefix of the queue's keys
-- Returns  ids of tasks that say they are in a list, which is not looked through here
--          · then kind and id or key of each oddity (broker/diagnose.rs)
local listed = {}
local found = { listed }
local function odd(kind, what)
  found[#found + 1] = kind
  found[#found + 1] = what
end
-- Returns whether programs find the task where its state says. They look into no group that is missing from the set of groups, as
-- asynq's forwarder and its reclaim leave some. A task of such a group is in no set: looking for each in all sets keeps Redis busy.
local function is_found(state, id, group)
  if not is_there(state, id, group) then return state == 'aggregating' and is_in_a_set(id) end
  return state ~= 'aggregating' or call('SISMEMBER', KEYS[9], group) == 1
end
for i = 11, #KEYS do
  local key = KEYS[i]
  local name = string.sub(key, #prefix + 1)
  if string.sub(name, 1, 2) == 't:' then
    local id = string.sub(name, 3)
    local task = peek('HMGET', key, 'state', 'group')
    if task.err then
      odd('foreign-key', key)
    -- A task that has ended by now is nowhere.
    elseif task[1] or call('EXISTS', key) == 1 then
      local state = task[1]
      if state == 'pending' or state == 'active' then
        listed[#listed + 1] = id
      elseif not is_found(state, id, task[2]) then
        odd('task-without-place', id)
      end
    end
  elseif string.sub(name, 1, 7) == 'unique:' then
    local holder = peek('GET', key)
    if type(holder) == 'table' then
      odd('foreign-key', key)
    elseif holder and call('EXISTS', prefix .. 't:' .. holder) == 0 then
      odd('lock-without-task', key)
    end
  end
end
return found
