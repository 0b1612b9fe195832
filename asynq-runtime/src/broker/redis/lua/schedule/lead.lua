-- Takes the lead if it is free, or extends it.
-- KEYS     1 asynq:x:leader:PROGRAM
-- ARGV     1 token|revision of the candidate · 2 milliseconds that it leads
-- Returns  '' and 0 (the candidate leads) · or the leader, as ARGV 1, and for how many ms more
local call = redis.call
local holder, left = call('GET', KEYS[1]), call('PTTL', KEYS[1])
-- Each lead has an end. One without was copied from another Redis, and its leader is not here.
if holder and holder ~= ARGV[1] and left >= 0 then
  -- So long a lead was given before the clock was set back. Ten leases are left, because another version of the program may have a
  -- longer one: within them a leader that lives renews it.
  local most = 10 * ARGV[2]
  if left > most then
    call('PEXPIRE', KEYS[1], most)
    left = most
  end
  return { holder, left }
end
-- Without a leader PEXPIRE does nothing; as the first write it lets the script run when memory is full.
if call('PEXPIRE', KEYS[1], ARGV[2]) == 0 or holder ~= ARGV[1] then call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return { '', 0 }
