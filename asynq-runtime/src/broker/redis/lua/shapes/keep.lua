-- Keeps a shape, unless another body is kept than the caller has read (docs/design/wire.md#shapes).
-- KEYS     1 the shape
-- ARGV     1 now · 2 the body as read ('' none) · 3 the new body · 4 seconds · 5 bytes after which a body is cut off
-- Returns  nothing if the new body is kept; else the body that is kept
local kept = redis.call('GETRANGE', KEYS[1], 0, tonumber(ARGV[5]))
if kept ~= '' and kept ~= ARGV[2] and kept ~= ARGV[3] then return kept end
redis.call('SET', KEYS[1], ARGV[3], 'EX', ARGV[4])
return false
