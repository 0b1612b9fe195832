-- Puts a task that moves into its new queue, held as hold.lua does until it has left the old queue (contract Repair::move_task).
-- KEYS     1 task hash · 2 scheduled · 3 x:moved:ID · 4 unique lock, if it has one
-- ARGV     1 now · 2 id · 3 the move · 4 the move's name · 5 when the lock ends, Unix ms ('' none)
--          · 6 prefix of the queue's keys; then fields and values
-- Returns  done, now or before · over (this move has ended) · conflict · duplicate and the holder of the lock
local call = redis.call
local _, _, now_ms = clock(ARGV[1])
local key, id = KEYS[1], ARGV[2]
if call('GET', KEYS[3]) == ARGV[4] then return { 'over' } end
if call('EXISTS', key) == 1 then
  local move = peek('HGET', key, 'move')
  return { is_of_move(move, ARGV[4]) and 'done' or 'conflict' }
end
call('ZCARD', KEYS[2])
local left = tonumber(ARGV[5]) and tonumber(ARGV[5]) - now_ms or 0
if #KEYS == 4 and left > 0 and not call('SET', KEYS[4], id, 'NX', 'PX', whole(left)) then
  local holder = holder_of(KEYS[4], ARGV[6])
  if holder then return { 'duplicate', holder } end
  call('SET', KEYS[4], id, 'PX', whole(left))
end
call('ZADD', KEYS[2], never, id)
for i = 7, #ARGV, 2 do call('HSET', key, ARGV[i], ARGV[i + 1]) end
call('HSET', key, 'state', 'scheduled', 'move', ARGV[3])
return { 'done' }
