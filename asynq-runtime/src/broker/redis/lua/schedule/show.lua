-- Writes the entries of a scheduler for asynq's tools.
-- KEYS     1 asynq:schedulers:{ID}
-- ARGV     1 seconds they last; then the entries
-- Returns  nothing
local call = redis.call
-- As the first write DEL lets the script run when memory is full.
call('DEL', KEYS[1])
for i = 2, #ARGV, 100 do call('LPUSH', KEYS[1], unpack(ARGV, i, math.min(i + 99, #ARGV))) end
call('EXPIRE', KEYS[1], ARGV[1])
