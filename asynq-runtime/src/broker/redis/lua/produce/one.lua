-- Stores one new task that runs now, with an id of our making and nothing else, in the fewest steps, as enqueue.lua does on a
-- first send. A task that is sent again goes to enqueue.lua, which reads the receipt of this script.
-- KEYS     1 pending · 2 task hash · 3 x:sent:.. (receipt of this sender's slot)
-- ARGV     1 now · 2 number of this send · 3 seconds that the receipt is kept · 4 id · 5 msg
-- Returns  p stored or c id taken, and behind it, in one text, now in ms, which is when the task is due
local call, KEYS, ARGV = redis.call, KEYS, ARGV
local now_ns = clock_text(ARGV[1])
local now_ms = string.sub(now_ns, 1, -7)
if call('EXISTS', KEYS[2]) == 1 then return 'c' .. now_ms end
-- The container comes before the hash: if it is of a wrong type, no hash is left behind that no script would ever find.
call('LPUSH', KEYS[1], ARGV[4])
call('HSET', KEYS[2], 'msg', ARGV[5], 'state', 'pending', 'pending_since', now_ns)
-- The receipt that enqueue.lua would leave: its answers as JSON.
call('SET', KEYS[3], ARGV[2] .. ' ["p","' .. now_ms .. '"]', 'EX', ARGV[3])
return 'p' .. now_ms
