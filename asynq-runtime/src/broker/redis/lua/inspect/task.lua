-- Reads one task in any state.
-- KEYS     1 task hash · 2 scheduled · 3 retry · 4 lease · 5 x:due · 6 archived
-- ARGV     1 now · 2 id
-- Returns  as list.lua, at most one task
local call = redis.call
local _, now_ns = clock(ARGV[1])
local task = read_task(KEYS[1])
if not task then return { now_ns, 0, 0 } end
local id, state = ARGV[2], task[5]
local score, lease, due = '', '', ''
if state == 'scheduled' or state == 'retry' then
  score = call('ZSCORE', state == 'retry' and KEYS[3] or KEYS[2], id)
  due = call('ZSCORE', KEYS[5], string.sub(state, 1, 1) .. ':' .. id)
elseif state == 'active' then
  lease = call('ZSCORE', KEYS[4], id)
elseif state == 'archived' then
  -- A key of a foreign type hides no task.
  local at = peek('ZSCORE', KEYS[6], id)
  score = type(at) == 'string' and at
end
local row = brief_of(id, score or '', lease or '', due or '', task, nil)
return { now_ns, 1, 0, row }
