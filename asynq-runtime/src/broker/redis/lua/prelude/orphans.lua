-- Prelude of scripts that take out ids without a task: notes them for people, as many as a person looks at.
-- KEYS     none; the scripts hand their own to the function
-- ARGV     none
-- Returns  nothing
local function note_orphans(orphans, ids)
  if #ids == 0 or redis.call('SCARD', orphans) >= 1000 then return end
  redis.call('SADD', orphans, unpack(ids, 1, math.min(#ids, 1000)))
  redis.call('EXPIRE', orphans, 604800)
end
