-- Ends a move in one queue: puts the task, which hold.lua or insert_moved.lua held, where it belongs (contract Repair::move_task).
-- KEYS     1-10 as places.lua says · 11 task hash · 12 x:moved:ID
-- ARGV     1 now · 2 prefix of the queue's keys · 3 id · 4 the move's name · 5 message · 6 state · 7 score ('' none)
--          · 8 exact due ms ('' none) · 9 group ('' none)
--          · 10 head (the move failed, it is here again) or tail (it has arrived)
-- Returns  done · changed (it is not as this move left it)
local _, now_ns, now_ms = clock(ARGV[1])
local id, key, state, score, group = ARGV[3], KEYS[11], ARGV[6], ARGV[7], ARGV[9]
local task = peek('HMGET', key, 'state', 'move')
if not (is_held(KEYS[4], task[1], id, key) and is_of_move(task[2], ARGV[4])) then return 'changed' end
-- These calls change nothing: a key of a foreign type stops the script here, before the task is in two places.
call('ZCARD', KEYS[4])
if zsets[state] then call('ZCARD', zsets[state]) end
if state == 'aggregating' then call('SCARD', KEYS[9]) elseif ARGV[8] ~= '' then call('ZCARD', KEYS[8]) end

if state == 'pending' then
  call(ARGV[10] == 'head' and 'RPUSH' or 'LPUSH', KEYS[1], id)
  call('HSET', key, 'pending_since', now_ns)
elseif state == 'aggregating' then
  call('ZADD', prefix .. 'g:' .. group, score, id)
  call('SADD', KEYS[9], group)
else
  call('ZADD', zsets[state], score, id)
  if ARGV[8] ~= '' then note_due(KEYS[8], { ARGV[8], string.sub(state, 1, 1) .. ':' .. id }, now_ms) end
end
if state ~= 'scheduled' then call('ZREM', KEYS[4], id) end
call('HSET', key, 'state', state, 'msg', ARGV[5])
call('HDEL', key, 'move')
if ARGV[10] == 'tail' then
  call('SET', KEYS[12], ARGV[4], 'EX', 3600)
else
  -- For a week a copy that is left behind in the other queue is not released: the task may have run here and be gone.
  call('SET', KEYS[12], 'back:' .. ARGV[4], 'EX', 604800)
end
return 'done'
