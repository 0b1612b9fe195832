-- Frees a unique lock for an operator (contract Repair::release_lock).
-- KEYS     1 lock · 2 hash of the task that holds it
-- ARGV     1 id of that task · 2 only if there is no such task? 0|1
-- Returns  1 freed · 0 another task or no task holds it, or its holder is there
if peek('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '1' and redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
return redis.call('DEL', KEYS[1])
