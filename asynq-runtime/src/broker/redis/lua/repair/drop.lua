-- Deletes a copy of a task that moves: the old one, or a new one that must not stay (contract Repair::move_task).
-- KEYS     1 task hash · 2 scheduled · 3 x:moved:ID · 4 unique lock, if it has one
-- ARGV     1 now · 2 id · 3 the move's name · 4 leave a receipt? 0|1
-- Returns  done, now or before · none (another client deleted it) · changed (another client changed it)
local call = redis.call
local id, key = ARGV[2], KEYS[1]
local task = peek('HMGET', key, 'state', 'move')
if not (is_held(KEYS[2], task[1], id, key) and is_of_move(task[2], ARGV[3])) then
  if call('GET', KEYS[3]) == ARGV[3] then return 'done' end
  return call('EXISTS', key) == 0 and 'none' or 'changed'
end
if ARGV[4] == '1' then call('SET', KEYS[3], ARGV[3], 'EX', 3600) end
call('ZREM', KEYS[2], id)
if #KEYS == 4 then unlock(KEYS[4], id) end
call('DEL', key)
return 'done'
