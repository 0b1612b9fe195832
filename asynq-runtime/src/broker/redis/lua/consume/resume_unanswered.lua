-- Reads the tasks of a dequeue whose answer was lost, part by part.
-- KEYS     1 active · 2 x:absent
-- ARGV     1 prefix of task hashes · 2 run token · 3 where an earlier call says to go on ('' none) · 4 bytes of messages after
--          which it stops; then the ids that came already
-- Returns  as dequeue.lua, oldest first; no task if all of them came; or a number, where the next call goes on to look for them
local mine, _, go_on = unanswered(ARGV[1], ARGV[2], ARGV[3], 5)
if go_on then return go_on end

local tasks, facts, room = {}, {}, tonumber(ARGV[4])
for i = #mine, 1, -1 do
  local key = ARGV[1] .. mine[i]
  local msg, crashes, x, retried = unpack(call('HMGET', key, 'msg', 'crashes', 'x', 'crashes_retried'))
  if msg then
    crashes = crashes_of(key, msg, crashes, retried)
    tasks[#tasks + 1] = mine[i]
    tasks[#tasks + 1] = msg
    if crashes > 0 or x then
      facts[#facts + 1] = #tasks / 2
      facts[#facts + 1] = whole(crashes)
      facts[#facts + 1] = x or ''
    end
    room = room - #msg
    if room <= 0 then break end
  end
end
return { tasks, facts }
