-- Prelude of scripts that ask whether a group is ripe, by whole seconds as asynq does.
-- KEYS     none
-- ARGV     none; the script hands its own to rules_of
-- Returns  nothing

-- Returns the rules of arguments: grace seconds · longest wait seconds ('' none) · size that makes a group ripe ('' none).
local function rules_of(grace, longest, size)
  return { grace = tonumber(grace), longest = tonumber(longest), size = tonumber(size) }
end

-- Returns whether a group is ripe in which `waiting` tasks wait, at least one.
local function is_ripe(key, waiting, rules, now_s)
  local function score_at(rank) return tonumber(redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')[2]) end
  return (rules.size and waiting >= rules.size)
    or (rules.longest and score_at(0) <= now_s - rules.longest)
    or score_at(-1) <= now_s - rules.grace
end
