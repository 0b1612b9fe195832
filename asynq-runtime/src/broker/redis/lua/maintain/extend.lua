-- Renews the leases of up to 100 runs of one queue, each only if the run still holds its task.
-- KEYS     1 active · 2 lease · 3.. one task hash per run; x:absent without any run, which asks whether leases can be renewed now
-- ARGV     1 now · 2 lease seconds; then per run: id token
-- Returns  one letter per run: o extended · f fenced · g gone
local call = redis.call
local until_s = whole((clock(ARGV[1])) + tonumber(ARGV[2]))
-- This call removes nothing; as the first write it lets the script run when memory is full.
call('ZREM', KEYS[2], '')

local answers, held = {}, {}
for i = 3, #ARGV / 2 + 1 do
  local id, token = ARGV[2 * i - 3], ARGV[2 * i - 2]
  answers[i - 2] = held_by(KEYS[i], token)
  if answers[i - 2] == 'o' then
    held[#held + 1] = until_s
    held[#held + 1] = id
  end
end
-- ZADD has no XX, so that a lease that was lost to eviction is repaired here.
if #held > 0 then call('ZADD', KEYS[2], unpack(held)) end
return table.concat(answers)
