-- Ends a move in one queue: puts the task, which hold.lua or insert_moved.lua held, where it belongs (contract Repair::move_task).
-- KEYS     1-10 as places.lua says · 11 task hash · 12 x:moved:ID
-- ARGV     1 now · 2 prefix of the queue's keys · 3 id · 4 the move · 5 the move's name · 6 message meanwhile · 7 message
--          · 8 state · 9 score ('' none) · 10 exact due ms ('' none) · 11 group ('' none)
--          · 12 head (the move failed, it is here again) or tail (it has arrived)
-- Returns  done · changed (it is not as this move left it)
local _, now_ns, now_ms = clock(ARGV[1])
local id, key, state, score, group = ARGV[3], KEYS[11], ARGV[8], ARGV[9], ARGV[11]
local task = peek('HMGET', key, 'state', 'move', 'msg')
if not (task[1] == 'scheduled' and task[2] == ARGV[4] and task[3] == ARGV[6]) then return 'changed' end
-- These calls change nothing: a key of a foreign type stops the script here, before the task is in two places.
call('ZCARD', KEYS[4])
if zsets[state] then call('ZCARD', zsets[state]) end
if state == 'aggregating' then call('SCARD', KEYS[9]) elseif ARGV[10] ~= '' then call('ZCARD', KEYS[8]) end

if state == 'pending' then
  call(ARGV[12] == 'head' and 'RPUSH' or 'LPUSH', KEYS[1], id)
  call('HSET', key, 'pending_since', now_ns)
elseif state == 'aggregating' then
  call('ZADD', prefix .. 'g:' .. group, score, id)
  call('SADD', KEYS[9], group)
else
  call('ZADD', zsets[state], score, id)
  if ARGV[10] ~= '' then note_due(KEYS[8], { ARGV[10], string.sub(state, 1, 1) .. ':' .. id }, now_ms) end
end
if state ~= 'scheduled' then call('ZREM', KEYS[4], id) end
call('HSET', key, 'state', state, 'msg', ARGV[7])
call('HDEL', key, 'move')
if ARGV[12] == 'tail' then
  call('SET', KEYS[12], ARGV[5], 'EX', 3600)
else
  -- For a week a copy that is left behind in the other queue is not released: the task may have run here and be gone.
  call('SET', KEYS[12], 'back:' .. ARGV[5], 'EX', 604800)
end
return 'done'
