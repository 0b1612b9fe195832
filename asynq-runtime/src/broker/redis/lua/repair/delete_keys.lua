-- Deletes keys of a queue, provided that it has no task. A task is always stored in one step with its place; so without a task in
-- any place no hash or lock of the queue belongs to one.
-- KEYS     1 pending · 2 active · 3 scheduled · 4 retry · 5 archived · 6 completed · 7 groups · 8 aggregation_sets
--          · then the keys to delete (at most 100)
-- ARGV     1 prefix of the queue's keys
-- Returns  1 done, or nothing is there · 0 the queue has tasks
local call = redis.call
-- This call removes nothing; as the first write it lets the script run when memory is full.
call('ZREM', KEYS[3], '')

-- Returns whether a list or zset holds anything. clear_groups.lua has removed all groups and sets without a task: those that are
-- there now came since, with their tasks.
local function is_taken(name)
  local kind = call('TYPE', name).ok
  return (kind == 'list' and call('LLEN', name) > 0) or (kind == 'zset' and call('ZCARD', name) > 0)
end
for i = 1, 6 do
  if is_taken(KEYS[i]) then return 0 end
end
if call('TYPE', KEYS[7]).ok == 'set' or is_taken(KEYS[8]) then return 0 end
local groups = ARGV[1] .. 'g:'
for i = 9, #KEYS do
  if string.sub(KEYS[i], 1, #groups) == groups and is_taken(KEYS[i]) then return 0 end
end
for i = 9, #KEYS do call('UNLINK', KEYS[i]) end
return 1
