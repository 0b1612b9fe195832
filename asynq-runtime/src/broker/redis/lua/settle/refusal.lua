-- Put in front of scripts that end runs.
-- KEYS     none; the scripts hand their own to the function
-- ARGV     none
-- Returns  nothing

-- Why a run cannot be ended that is not the holder's: b it has ended before, f fenced, g gone. The hashes of `deleted` go at
-- the end of the script: a run of theirs was sent twice.
local function refusal(key, token, deleted)
  for i = 1, #deleted do
    if deleted[i] == key then return 'g' end
  end
  local found = redis.call('HMGET', key, 'state', 'last')
  if not found[1] and redis.call('EXISTS', key) == 0 then return 'g' end
  return found[2] == token and 'b' or 'f'
end
