-- Put in front of the scripts that look for what a dequeue took whose answer was lost: it bears that dequeue's token.
-- KEYS     1 active
-- ARGV     the scripts hand their own to the function
-- Returns  nothing
local call, pcall = redis.call, redis.pcall

-- The ids, newest first, but for those that came already: the arguments from `first` on.
local function unanswered(prefix, token, first)
  -- The newest of active, so many that no fleet runs more at a time and the others can wait for it; what lies deeper is
  -- recovered when its lease has passed.
  local page, pages = 1000, 20
  local had, mine = {}, {}
  for i = first, #ARGV do had[ARGV[i]] = true end
  for i = 0, pages - 1 do
    local ids = call('LRANGE', KEYS[1], page * i, page * (i + 1) - 1)
    for _, id in ipairs(ids) do
      -- pcall: one key of a wrong type must not stop the others.
      if not had[id] and pcall('HGET', prefix .. id, 'pending_since') == token then mine[#mine + 1] = id end
    end
    if #ids < page then break end
  end
  return mine
end
