-- Renews the leases of the tasks of a dequeue whose answer is long and still on its way.
-- KEYS     1 active · 2 lease · 3 x:absent
-- ARGV     1 now · 2 prefix of task hashes · 3 run token · 4 lease seconds; then the ids that came already
-- Returns  how many tasks
local until_s = whole((clock(ARGV[1])) + tonumber(ARGV[4]))
-- This call removes nothing; as the first write it lets the script run when memory is full.
call('ZREM', KEYS[2], '')

local tasks = unanswered(ARGV[2], ARGV[3], 5)
for _, id in ipairs(tasks) do call('ZADD', KEYS[2], until_s, id) end
return #tasks
