-- Finds the tasks that a dequeue took whose answer was lost (F6, FENCE 3): they bear its token.
-- KEYS     1 active
-- ARGV     1 prefix of task hashes · 2 run token
-- Returns  as dequeue.lua, oldest first
local call, pcall = redis.call, redis.pcall
-- The newest of active, so many that no fleet runs more at a time and the others can wait for it; what lies deeper is
-- recovered when its lease has passed.
local page, pages = 1000, 20

local mine = {}
for i = 0, pages - 1 do
  local ids = call('LRANGE', KEYS[1], page * i, page * (i + 1) - 1)
  for _, id in ipairs(ids) do
    -- pcall: one key of a wrong type must not stop the others.
    if pcall('HGET', ARGV[1] .. id, 'pending_since') == ARGV[2] then mine[#mine + 1] = id end
  end
  if #ids < page then break end
end

local tasks, facts = {}, {}
for i = #mine, 1, -1 do
  local msg, crashes, x = unpack(call('HMGET', ARGV[1] .. mine[i], 'msg', 'crashes', 'x'))
  if msg then
    tasks[#tasks + 1] = mine[i]
    tasks[#tasks + 1] = msg
    if crashes or x then
      facts[#facts + 1] = #tasks / 2
      facts[#facts + 1] = crashes or '0'
      facts[#facts + 1] = x or ''
    end
  end
end
return { tasks, facts }
