-- Prelude of the scripts that look for the tasks of a dequeue whose answer was lost: these tasks bear the token of that dequeue.
-- KEYS     1 active
-- ARGV     the scripts hand their own to the function
-- Returns  nothing
local call, pcall = redis.call, redis.pcall

-- Returns the ids, newest first, without the ids that came already, which are the arguments from `first` on.
local function unanswered(prefix, token, first)
  -- Only the newest of active are read: so many that no fleet runs more at a time and other clients can wait for the script.
  -- Tasks that lie deeper are recovered when their lease has passed.
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
