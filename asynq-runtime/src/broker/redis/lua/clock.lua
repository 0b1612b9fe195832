-- Put in front of every script, so that all tell the time in one way.
-- KEYS     none
-- ARGV     none; the script hands its own to clock
-- Returns  nothing
--
-- clock(given) takes nanoseconds as text from a test, or '' for Redis's own time, and
-- returns whole seconds, nanoseconds as text (they do not fit a Lua number), milliseconds.
local function clock(given)
  if given == '' then
    local time = redis.call('TIME')
    local seconds, micros = tonumber(time[1]), tonumber(time[2])
    return seconds, string.format('%s%06d000', time[1], micros), seconds * 1000 + math.floor(micros / 1000)
  end
  local seconds, nanos = tonumber(string.sub(given, 1, -10)), tonumber(string.sub(given, -9))
  return seconds, given, seconds * 1000 + math.floor(nanos / 1000000)
end

-- A number without exponent or fraction, whatever its size.
local function whole(number)
  return string.format('%.0f', number)
end
