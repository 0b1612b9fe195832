-- Prelude of the scripts that look for the tasks of a dequeue whose answer was lost: these tasks bear the token of that dequeue.
-- KEYS     1 active
-- ARGV     the scripts hand their own to the function
-- Returns  nothing
local call = redis.call

-- Ids that one call looks at, and the most tasks of one dequeue, which lie side by side in active.
local PAGE, MOST = 1000, 64

-- Looks through one page of active, from the newest run on, or from where an earlier call says ('' if there is none). Returns
-- the ids, newest first; their places in active; and where the next call goes on, nil if the tasks were found or active ends here.
-- Runs begin at the head and end anywhere. The pages are counted from the tail, so no run that begins or ends between two calls
-- moves a task behind the next page.
local function unanswered(prefix, token, from)
  local length = call('LLEN', KEYS[1])
  local begin = from == '' and 0 or math.max(length - tonumber(from), 0)
  local ids = call('LRANGE', KEYS[1], begin, begin + PAGE + MOST - 2)
  local mine, places = {}, {}
  local i, last, is_found = 1, math.min(#ids, PAGE), false
  while i <= last do
    -- peek: one key of a wrong type must not stop the others.
    if peek('HGET', prefix .. ids[i], 'pending_since') == token then
      if not is_found then is_found, last = true, math.min(#ids, i + MOST - 1) end
      mine[#mine + 1], places[#places + 1] = ids[i], begin + i - 1
    end
    i = i + 1
  end
  local left = length - begin - PAGE
  return mine, places, not is_found and left > 0 and left or nil
end
