-- Prelude of scripts that count or read how many workers in a row died while they ran a task. A failed attempt ends the row: our
-- workers then delete `crashes`; a Go worker only raises `retried` in the message, which `crashes_retried` keeps.
-- KEYS     none
-- ARGV     none; the scripts hand their own to the functions
-- Returns  nothing

-- Returns `retried` of a message as text, nil without a message.
local function retried_of(msg)
  local retried = type(msg) == 'string' and (proto(msg, 6) or 0)
  return type(retried) == 'number' and whole(retried) or nil
end

-- Returns the number of crashes, by the fields `crashes` and `crashes_retried`, at most what its readers can hold. A message that the
-- caller has not read is read here.
local function crashes_of(key, msg, crashes, retried)
  crashes = math.min(crashes and tonumber(crashes) or 0, 4294967295)
  if crashes == 0 or not retried then return crashes end
  return retried_of(msg or redis.pcall('HGET', key, 'msg')) == retried and crashes or 0
end
