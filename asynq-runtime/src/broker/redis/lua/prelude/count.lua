-- Prelude of scripts that count runs that ended.
-- KEYS     none; the scripts hand their own to the functions
-- ARGV     none
-- Returns  nothing

-- Returns whether it is the counter's own fault that it was not raised: it is of a foreign type, no number, or too large a one.
local function is_spoilt(sum)
  return type(sum) == 'table' and (is_foreign(sum) or string.find(sum.err, 'integer') or string.find(sum.err, 'overflow'))
end

-- Raises a counter of the day and the one of all days. Counting must not fail a run that has ended: a counter that cannot be
-- raised starts again. Returns true if the counter of all days did so.
local function count(day, total, by, day_ends)
  if by == 0 then return end
  local sum = redis.pcall('INCRBY', day, by)
  local is_new = is_spoilt(sum)
  if is_new then redis.call('SET', day, by) end
  if is_new or sum == by then redis.call('EXPIREAT', day, day_ends) end
  if is_spoilt(redis.pcall('INCRBY', total, by)) then
    redis.call('SET', total, by)
    return true
  end
end

-- Counts runs that ended. When processed starts again, a failure takes failed along, as in asynq.
local function count_runs(keys, processed, failed, day_ends)
  local processed_day, processed_total, failed_day, failed_total = unpack(keys)
  if count(processed_day, processed_total, processed, day_ends) and failed > 0 then redis.call('SET', failed_total, 0) end
  count(failed_day, failed_total, failed, day_ends)
end
