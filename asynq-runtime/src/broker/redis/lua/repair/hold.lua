-- Puts a task that is about to move where nothing runs it and no housekeeping deletes it: among the scheduled, for a time that
-- never comes, with a field of the facts that are needed to go on (contract Repair::move_task).
-- KEYS     1-10 as places.lua says · 11 task hash · 12 x:absent
-- ARGV     1 now · 2 prefix of the queue's keys · 3 id · 4 state and 5 message as read · 6 message meanwhile · 7 the move
-- Returns  done · changed (it is not as it was read)
local id, key = ARGV[3], KEYS[11]
local task = peek('HMGET', key, 'state', 'msg', 'group')
if task[1] ~= ARGV[4] or task[2] ~= ARGV[5] or untouchable(task[1], id, task[3]) then return 'changed' end
-- A second record would replace the only copy of the task's true state and due time.
if is_held(KEYS[4], task[1], id, key) then return 'changed' end
-- ZCARD changes nothing; a zset of a foreign type stops the script here. The field comes next: without room for it nothing is
-- changed either.
call('ZCARD', KEYS[4])
call('HSET', key, 'move', ARGV[7])
take_out(task[1], id, task[3])
call('ZADD', KEYS[4], never, id)
call('HSET', key, 'state', 'scheduled', 'msg', ARGV[6])
return 'done'
