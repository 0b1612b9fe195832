-- Prelude of scripts that must not stop half way: asks for the types of their containers before they change anything.
-- KEYS     none
-- ARGV     none
-- Returns  nothing

-- Returns whether a key is of the wanted type or absent. Each key is asked for once.
local types = {}
local function fits(key, wanted)
  types[key] = types[key] or redis.call('TYPE', key).ok
  return types[key] == wanted or types[key] == 'none'
end
