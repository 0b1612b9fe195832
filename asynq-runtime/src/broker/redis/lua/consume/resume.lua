-- Finds the tasks that a dequeue took whose answer was lost (F6, FENCE 3): they bear its token.
-- KEYS     1 active
-- ARGV     1 prefix of task hashes · 2 run token
-- Returns  as dequeue.lua, oldest first
local call = redis.call
local tasks, facts = {}, {}
local ids = call('LRANGE', KEYS[1], 0, 999)
for i = #ids, 1, -1 do
  local task = call('HMGET', ARGV[1] .. ids[i], 'pending_since', 'msg', 'crashes', 'x')
  if task[1] == ARGV[2] and task[2] then
    tasks[#tasks + 1] = ids[i]
    tasks[#tasks + 1] = task[2]
    if task[3] or task[4] then
      facts[#facts + 1] = #tasks / 2
      facts[#facts + 1] = task[3] or '0'
      facts[#facts + 1] = task[4] or ''
    end
  end
end
return { tasks, facts }
