-- Checks one slice of a container of tasks (a list or a zset of ids) against the tasks' hashes, and changes nothing.
-- KEYS     1-10 as places.lua says · 11 the container
-- ARGV     1 now · 2 prefix of the queue's keys · 3 the state whose container it is, or 'lease' · 4 where to begin · 5 slice
-- Returns  the ids of the slice · then kind and id of each oddity (broker/diagnose.rs)
local container, state = KEYS[11], ARGV[3]
local from, slice = tonumber(ARGV[4]), tonumber(ARGV[5])
local holds, ids = call('TYPE', container).ok, {}
if holds == 'list' then
  ids = call('LRANGE', container, from, from + slice - 1)
elseif holds == 'zset' then
  ids = call('ZRANGE', container, from, from + slice - 1)
elseif holds ~= 'none' then
  return { ids, 'foreign-key', container }
end

local found = { ids }
local function odd(kind, id)
  found[#found + 1] = kind
  found[#found + 1] = id
end
for _, id in ipairs(ids) do
  local key = prefix .. 't:' .. id
  local says = peek('HGET', key, 'state')
  if type(says) == 'table' then
    odd('foreign-key', key)
  elseif state == 'lease' then
    if says ~= 'active' and not is_there('active', id) then odd('lease-without-task', id) end
  elseif call('EXISTS', key) == 0 then
    odd('id-without-task', id)
  elseif says ~= state then
    odd('task-in-wrong-place', id)
  elseif is_held(KEYS[4], says, id, key) then
    odd('task-being-moved', id)
  elseif state == 'active' and not call('ZSCORE', KEYS[3], id) then
    odd('active-without-lease', id)
  end
end
return found
