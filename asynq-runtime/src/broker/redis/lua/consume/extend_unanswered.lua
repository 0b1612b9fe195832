-- Renews the leases of the tasks of a dequeue whose answer is long and still on its way.
-- KEYS     1 active · 2 lease · 3 x:absent
-- ARGV     1 now · 2 prefix of task hashes · 3 run token · 4 where an earlier call says to go on ('' none) · 5 lease seconds
-- Returns  the ids; or a number, where the next call goes on to look for them
local until_s = whole((clock(ARGV[1])) + tonumber(ARGV[5]))
-- This call removes nothing; as the first write it lets the script run when memory is full.
call('ZREM', KEYS[2], '')

local tasks, _, go_on = unanswered(ARGV[2], ARGV[3], ARGV[4])
for _, id in ipairs(tasks) do call('ZADD', KEYS[2], until_s, id) end
return go_on or tasks
