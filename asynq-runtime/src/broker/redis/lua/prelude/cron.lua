-- Prelude of the scripts of periodic entries: reads and answers an entry, and tells which program is newer.
-- KEYS     none
-- ARGV     none; the scripts hand their own to the functions
-- Returns  nothing

-- Returns the entry under the key, nil if there is none, or nil and the error of a key of a foreign type.
local function read_entry(key)
  local found = peek('HMGET', key, 'spec', 'tz', 'rev', 'last', 'prev', 'paused')
  if found.err then return nil, found end
  if not found[1] then return nil end
  return {
    is_kept = true, spec = found[1], zone = found[2] or '', revision = found[3] or '0', last = tonumber(found[4] or 0) or 0,
    previous = found[5] or '', paused = found[6] == '1',
  }
end

-- Returns whether the entry was written before the clock went back.
local function is_ahead(entry, now_ms)
  return entry.last > now_ms + 5000
end

-- Returns whether revision a is newer than b. Revisions are compared as text: a Lua number does not hold them all.
local function newer(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end

-- Returns the answer of a script about an entry.
local function answer_of(entry, now_ms)
  if not entry then return { whole(now_ms) } end
  return {
    whole(now_ms), entry.spec, entry.zone, entry.revision, whole(entry.last), entry.previous, entry.paused and 1 or 0,
  }
end
