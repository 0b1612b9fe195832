-- Tells in one step whether a task that says it is in a list is in no place.
-- KEYS     1-10 as places.lua says · 11 task hash
-- ARGV     1 now · 2 prefix of the queue's keys · 3 id
-- Returns  1 the task is in no place · 0 the task is where it says, or gone by now
local task = peek('HMGET', KEYS[11], 'state', 'group')
if task.err or not task[1] then return 0 end
if is_there(task[1], ARGV[3], task[2]) or (task[1] == 'aggregating' and is_in_a_set(ARGV[3])) then return 0 end
return 1
