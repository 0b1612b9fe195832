-- Archives a task that is about to move, with what is needed to go on (contract Repair::move_task).
-- KEYS     1-10 as places.lua says · 11 task hash
-- ARGV     1 now · 2 prefix of the queue's keys · 3 id · 4 state and 5 message as read · 6 message meanwhile · 7 the move
-- Returns  done · changed (it is not as it was read)
local now_s = clock(ARGV[1])
local id, key = ARGV[3], KEYS[11]
local task = pcall('HMGET', key, 'state', 'msg', 'group')
if task[1] ~= ARGV[4] or task[2] ~= ARGV[5] or untouchable(task[1], id, task[3]) then return 'changed' end
-- Changes nothing; an archive of a foreign type stops the script here. Then the field: without room for it nothing is
-- changed either.
call('ZCARD', KEYS[6])
call('HSET', key, 'move', ARGV[7])
take_out(task[1], id, task[3])
call('ZADD', KEYS[6], whole(now_s), id)
call('HSET', key, 'state', 'archived', 'msg', ARGV[6])
return 'done'
