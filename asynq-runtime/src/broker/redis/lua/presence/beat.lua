-- Writes what a server says about itself and what it runs (PROTOCOL 5.19 c).
-- KEYS     1 asynq:servers:{name} · 2 asynq:workers:{name}
-- ARGV     1 seconds both last · 2 ServerInfo; then per running task: id WorkerInfo
-- Returns  nothing
local call = redis.call
-- DEL first: as the first write it lets the script run when memory is full.
call('DEL', KEYS[2])
call('SET', KEYS[1], ARGV[2], 'EX', ARGV[1])
for i = 3, #ARGV, 2 do
  call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
end
if #ARGV > 2 then call('EXPIRE', KEYS[2], ARGV[1]) end
