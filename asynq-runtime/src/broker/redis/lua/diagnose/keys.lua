-- Looks at one slice of all keys of the server for tasks and locks of a queue, and changes nothing.
-- KEYS     1-10 as places.lua says
-- ARGV     1 now · 2 prefix of the queue's keys · 3 pattern of them · 4 where to go on, '0' at the beginning · 5 how many
-- Returns  where to go on, '0' at the end · ids of tasks that say they are in a list, which is not looked through here
--          · then kind and id or key of each oddity (broker/diagnose.rs)
local scan = call('SCAN', ARGV[4], 'MATCH', ARGV[3], 'COUNT', tonumber(ARGV[5]))
local listed = {}
local found = { scan[1], listed }
local function odd(kind, what)
  found[#found + 1] = kind
  found[#found + 1] = what
end
for _, key in ipairs(scan[2]) do
  local name = string.sub(key, #prefix + 1)
  if string.sub(name, 1, 2) == 't:' then
    local id = string.sub(name, 3)
    local task = peek('HMGET', key, 'state', 'group', 'move')
    if task.err then
      odd('foreign-key', key)
    -- A task that is being moved between queues is in no place meanwhile.
    elseif not task[3] then
      local state, group = task[1], task[2]
      if state == 'pending' or state == 'active' then
        listed[#listed + 1] = id
      elseif not is_there(state, id, group) and not (state == 'aggregating' and is_in_a_set(id)) then
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
