-- Counts the tasks that wait in the groups of one step of a walk over the groups.
-- KEYS     1 groups
-- ARGV     1 prefix of the queue's keys · 2 where the walk is
-- Returns  where the walk goes on ('' at its end) · names of this step · tasks
local names, next_step = step_of(KEYS[1], ARGV[2])
local tasks = 0
for _, group in ipairs(names) do
  tasks = tasks + size_of(ARGV[1] .. 'g:' .. group)
end
return { next_step, #names, tasks }
