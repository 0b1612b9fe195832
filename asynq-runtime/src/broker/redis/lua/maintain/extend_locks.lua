-- Makes the unique locks of up to 100 running tasks of one queue last at least until a lease that begins now ends.
-- KEYS     task hash and lock of each
-- ARGV     1 lease seconds; then per lock: id token
-- Returns  how many were made to last longer
local lease, extended = tonumber(ARGV[1]), 0
for i = 1, #KEYS, 2 do
  local lock = KEYS[i + 1]
  -- A run that was lost must not hold the lock of the server or the task that has it now.
  if held_by(KEYS[i], ARGV[i + 2]) == 'o' and redis.pcall('GET', lock) == ARGV[i + 1] then
    local left = redis.call('PTTL', lock)
    if left >= 0 and left < lease * 1000 then
      redis.call('EXPIRE', lock, lease)
      extended = extended + 1
    end
  end
end
return extended
