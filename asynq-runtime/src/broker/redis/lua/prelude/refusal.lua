-- Put in front of scripts that end runs.
-- KEYS     none; the scripts hand their own to the function
-- ARGV     none
-- Returns  nothing

-- Why a run cannot be ended that is not the holder's: b it has ended before, f fenced, g gone. The script deletes the hashes of
-- `deleted` at its end: a run of one of them was sent twice, and is gone.
local function refusal(key, token, deleted)
  for i = 1, #deleted do
    if deleted[i] == key then return 'g' end
  end
  local found = redis.call('HMGET', key, 'state', 'last')
  if not found[1] and redis.call('EXISTS', key) == 0 then return 'g' end
  return found[2] == token and 'b' or 'f'
end
