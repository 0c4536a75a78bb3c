-- Which request wrk2 sends next: the mix of SREMUT_MIX in exact proportions, in an order that
-- SREMUT_SEED and the thread's number decide. One line a kind: WEIGHT METHOD PATH BODY, the body
-- in hexadecimal, `-` for none. (This wrk2 takes whatever follows its URL for further URLs, so a
-- script's arguments can only come by the environment.)

local numbered = 0

function setup(thread)
   numbered = numbered + 1
   thread:set("number", numbered)
end

local function unhex(text)
   if text == "-" then return nil end
   return (text:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

local cycle, place = {}, 0

function init(args)
   local seed = tonumber(os.getenv("SREMUT_SEED") or "1")
   math.randomseed(seed * 1000 + (number or 0))
   for line in os.getenv("SREMUT_MIX"):gmatch("[^\n]+") do
      local weight, method, path, body = line:match("^(%d+) (%u+) (%S+) (%S+)$")
      local headers = {}
      if body ~= "-" then headers["Content-Type"] = "application/x-www-form-urlencoded" end
      if body == "-" and method == "POST" then body = "" end
      local request = wrk.format(method, path, headers, unhex(body))
      for _ = 1, tonumber(weight) do cycle[#cycle + 1] = request end
   end
end

-- A fresh shuffle for every cycle, as the project's own generator does.
local function shuffle()
   for last = #cycle, 2, -1 do
      local other = math.random(last)
      cycle[last], cycle[other] = cycle[other], cycle[last]
   end
end

function request()
   if place == 0 then shuffle() end
   place = place % #cycle + 1
   local chosen = cycle[place]
   if place == #cycle then place = 0 end
   return chosen
end
