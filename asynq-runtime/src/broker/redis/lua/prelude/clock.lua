-- Prelude of every script, so that all tell the time in one way.
-- KEYS     none
-- ARGV     none; the script hands its own to clock
-- Returns  nothing
--
-- clock(given) takes nanoseconds as text from a test, or '' for Redis's own time, and
-- returns whole seconds, nanoseconds as text (they do not fit a Lua number), milliseconds.
-- clock_text(given) returns the nanoseconds alone, for scripts that only store the time.
local function clock_text(given)
  if given ~= '' then return given end
  local time = redis.call('TIME')
  return string.format('%s%06d000', time[1], time[2])
end

local function clock(given)
  local text = clock_text(given)
  local seconds, nanos = tonumber(string.sub(text, 1, -10)), tonumber(string.sub(text, -9))
  return seconds, text, seconds * 1000 + math.floor(nanos / 1000000)
end

-- Returns a number without exponent or fraction, whatever its size.
local function whole(number)
  return string.format('%.0f', number)
end
