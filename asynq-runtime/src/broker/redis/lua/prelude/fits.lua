-- Put in front of scripts that must not stop half way: asks for the types of their containers before they change anything.
-- KEYS     none
-- ARGV     none
-- Returns  nothing

-- Whether a key is of that type, or not there; asked once per key.
local types = {}
local function fits(key, wanted)
  types[key] = types[key] or redis.call('TYPE', key).ok
  return types[key] == wanted or types[key] == 'none'
end
