-- Lowers the counter of one customer for n documents. Everything it touches is in the customer's hash slot.
--
-- KEYS[1]  inturn:{customer}:counter
--          "count updated_at": the spec's count, 0 or below, and microseconds since 1970
-- KEYS[2]  inturn:{customer}:key:<idempotency key>, or absent
--          "n at first thresholds": what was asked first under the key, when, and what was answered
--
-- ARGV[1]  n
-- ARGV[2]  now in microseconds; "" for the clock of this server
-- ARGV[3]  the reset interval in microseconds
-- ARGV[4]  for how long a counter is kept beyond the interval, in microseconds
-- ARGV[5]  with a key: for how long it is kept, in microseconds
-- ARGV[6]  with a key: the thresholds in force, which a repeat gets back, so that it answers as the first did
--
-- Returns  the count of the first document, each further one has one less; with a key "first thresholds",
--          or "conflict" when the key stands for another n.
--
-- Numbers are doubles here, exact up to 2^53: microseconds reach that in the year 2255. They are written with %.0f,
-- because Lua would write 1.7e+15.

local call, format, match, tonumber = redis.call, string.format, string.match, tonumber

local n = tonumber(ARGV[1])
local interval = tonumber(ARGV[3])
local own_clock = ARGV[2] == ""
local now
if own_clock then
  local time = call("TIME")
  now = time[1] * 1000000 + time[2]
else
  now = tonumber(ARGV[2])
end

if KEYS[2] then
  local first = call("GET", KEYS[2])
  if first then
    local asked, at, answer = match(first, "^(%d+) (%d+) (.*)$")
    if now - at <= tonumber(ARGV[5]) then
      if tonumber(asked) ~= n then
        return "conflict"
      end
      return answer
    end
  end
end

-- The counter, lowered for the first of the documents: inturn.policy.priority, PriorityPolicy._lowered.
local count, updated_at = 0, now
local kept = call("GET", KEYS[1])
if kept then
  local before, at = match(kept, "^(-?%d+) (%d+)$")
  at = tonumber(at)
  local elapsed = now - at
  if elapsed <= interval then
    count = before - 1
    if elapsed < 0 and -elapsed <= interval then
      updated_at = at
    end
  end
end

-- A counter expires long after it would be reset anyway. One whose time was given does not: this server's clock says
-- nothing of it. A key always does, since nobody would ever ask for it again.
local value = format("%.0f %.0f", count - (n - 1), updated_at)
if own_clock then
  local left = updated_at - now + interval + ARGV[4]
  call("SET", KEYS[1], value, "PX", format("%.0f", math.ceil(left / 1000)))
else
  call("SET", KEYS[1], value)
end
if KEYS[2] then
  local answer = format("%.0f %s", count, ARGV[6])
  call("SET", KEYS[2], format("%.0f %.0f %s", n, now, answer), "PX", format("%.0f", math.ceil(ARGV[5] / 1000) + 1))
  return answer
end
return count
