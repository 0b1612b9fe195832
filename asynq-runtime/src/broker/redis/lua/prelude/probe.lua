-- Prelude of scripts that must not stop half way: asks for the rights that they need before they change anything.
-- KEYS     none
-- ARGV     none; the scripts hand a key to the function
-- Returns  nothing

-- Stops the script if its user lacks a right without which it would stop half way: Redis runs a script up to the command that a user may
-- not call, and rolls nothing back. These calls change nothing, because there is never a key of the name `absent`.
local function probe(absent)
  redis.call('DEL', absent)
  redis.call('HDEL', absent, '')
end
