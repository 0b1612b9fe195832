-- Writes the description of a server and of its runs, and keeps the server on the lists. Where the part that seldom changes, above
-- all the queues that it serves, is long, it is sent once and then taken from the beat before.
-- KEYS     1 asynq:servers:{name} · 2 asynq:workers:{name}; then, where these are on the same server, 3 asynq:servers
--          · 4 asynq:workers
-- ARGV     1 now · 2 seconds all of it lasts · 3 the part of the ServerInfo that seldom changes ('' as before) · 4 its length
--          · 5 its SHA-1 · 6 the rest of the ServerInfo; then per running task: id WorkerInfo
-- Returns  now in nanoseconds · how many servers are on the list, 0 where it is elsewhere · 1 if nothing was written, because
--          the beat before is not here: its key has ended, or a replica without it took over
local call = redis.call
local now_s, now_ns = clock(ARGV[1])
local info = ARGV[3]
if info == '' then
  info = call('GETRANGE', KEYS[1], 0, ARGV[4] - 1)
  if redis.sha1hex(info) ~= ARGV[5] then return { now_ns, 0, 1 } end
end
-- DEL comes first: as the first write it lets the script run when memory is full.
call('DEL', KEYS[2])
call('SET', KEYS[1], info .. ARGV[6], 'EX', ARGV[2])
-- Fifty runs with one HSET: with a call for each run, the beat of a server with thousands of runs takes half as long again.
for i = 7, #ARGV, 100 do
  call('HSET', KEYS[2], unpack(ARGV, i, math.min(i + 99, #ARGV)))
end
if #ARGV > 6 then call('EXPIRE', KEYS[2], ARGV[2]) end
for i = 3, #KEYS do
  call('ZADD', KEYS[i], whole(now_s + tonumber(ARGV[2])), KEYS[i - 2])
end
return { now_ns, KEYS[3] and call('ZCOUNT', KEYS[3], whole(now_s), '+inf') or 0, 0 }
