-- Prelude of scripts that ask whether a group is ripe, by whole seconds as asynq does.
-- KEYS     none
-- ARGV     none; the script hands its own to rules_of
-- Returns  nothing

-- Returns the rules of arguments: grace seconds · longest wait seconds ('' none) · size that makes a group ripe ('' none).
local function rules_of(grace, longest, size)
  return { grace = tonumber(grace), longest = tonumber(longest), size = tonumber(size) }
end

-- A task that joined its group so many seconds later than now was stamped by a clock that has been set back since. The clock of a
-- Go program may be ahead by less: its groups wait for it, and are not cut into small sets.
local BELIEVABLE = 600

-- Returns whether a group is ripe in which `waiting` tasks wait, at least one.
local function is_ripe(key, waiting, rules, now_s)
  local function score_at(rank) return tonumber(redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')[2]) end
  if rules.size and waiting >= rules.size then return true end
  if rules.longest and score_at(0) <= now_s - rules.longest then return true end
  local last = score_at(-1)
  -- Nothing tells how long a group has waited whose tasks joined by another time; it would wait for that time to come again.
  return last <= now_s - rules.grace or last > now_s + BELIEVABLE
end
