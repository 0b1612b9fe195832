-- Keeps the entries of a program in place of those before.
-- KEYS     1 asynq:x:entries:PROGRAM
-- ARGV     1 seconds they are kept; then the entries
-- Returns  those before, in their order
local call = redis.call
local before = redis.pcall('LRANGE', KEYS[1], 0, -1)
-- As the first write it lets the script run when memory is full.
call('DEL', KEYS[1])
for i = 2, #ARGV do call('RPUSH', KEYS[1], ARGV[i]) end
call('EXPIRE', KEYS[1], ARGV[1])
return before.err and {} or before
