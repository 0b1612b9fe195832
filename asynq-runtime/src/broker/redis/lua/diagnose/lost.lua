-- Whether a task that says it is in a list is in none, looked at in one step.
-- KEYS     1-10 as places.lua says · 11 task hash
-- ARGV     1 now · 2 prefix of the queue's keys · 3 id
-- Returns  1 it is in no place · 0 it is where it says, or gone by now
local task = pcall('HMGET', KEYS[11], 'state', 'group', 'move')
if task.err or not task[1] or task[3] then return 0 end
if is_there(task[1], ARGV[3], task[2]) or (task[1] == 'aggregating' and is_in_a_set(ARGV[3])) then return 0 end
return 1
