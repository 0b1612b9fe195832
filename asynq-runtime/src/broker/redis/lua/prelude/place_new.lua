-- Prelude of scripts that make one new task of something else: decides where the task goes, and stores it there.
-- KEYS     none
-- ARGV     none; the scripts hand their own to the functions, as { prefix, pending, scheduled, due, groups }
-- Returns  nothing

-- Returns the state of a new task, and the keys that it needs there, each with its type.
local function destination(due, group, keys, now_ms)
  if due > now_ms then return 'scheduled', { [keys.scheduled] = 'zset', [keys.due] = 'zset' } end
  if group ~= '' then return 'aggregating', { [keys.groups] = 'set', [keys.prefix .. 'g:' .. group] = 'zset' } end
  return 'pending', { [keys.pending] = 'list' }
end

-- Stores a task where `destination` said, once its keys are known to be of their types. Its lock may be '' for none.
local function store_new(task, keys, now_s, now_ns, now_ms)
  local call = redis.call
  if task.state == 'scheduled' then
    call('ZADD', keys.scheduled, whole(math.ceil(task.due / 1000)), task.id)
    note_due(keys.due, { whole(task.due), 's:' .. task.id }, now_ms)
  elseif task.state == 'aggregating' then
    call('ZADD', keys.prefix .. 'g:' .. task.group, whole(now_s), task.id)
    call('SADD', keys.groups, task.group)
  else
    call('LPUSH', keys.pending, task.id)
  end
  if task.lock ~= '' then call('SET', task.lock, task.id, 'EX', whole(held_for(task.seconds, task.due, now_ms))) end
  call('HSET', task.key, unpack(new_fields(task.msg, task.state, now_ns, task.group, task.lock, task.x)))
end
