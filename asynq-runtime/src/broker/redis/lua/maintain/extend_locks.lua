-- Makes the unique locks of up to 100 running tasks of one queue last at least so long from now on, and takes those again that have
-- ended and are free.
-- KEYS     task hash and lock of each
-- ARGV     1 seconds; then per lock: id token
-- Returns  how many were made to last longer
local seconds, extended = tonumber(ARGV[1]), 0
for i = 1, #KEYS, 2 do
  local lock = KEYS[i + 1]
  -- A run that was lost must not hold the lock of the server or the task that has it now.
  if held_by(KEYS[i], ARGV[i + 2]) == 'o' then
    local holder = peek('GET', lock)
    local left = holder == ARGV[i + 1] and redis.call('PTTL', lock) or -1
    if left >= 0 and left < seconds * 1000 then
      redis.call('EXPIRE', lock, seconds)
      extended = extended + 1
    elseif not holder and redis.call('HGET', KEYS[i], 'unique_key') == lock then
      -- A Redis whose memory is full refuses this, which must not keep the other locks from being extended.
      if not redis.pcall('SET', lock, ARGV[i + 1], 'EX', seconds).err then extended = extended + 1 end
    end
  end
end
return extended
