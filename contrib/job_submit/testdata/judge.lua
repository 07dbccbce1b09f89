-- judge.lua FOLDER: reads pairs of a script and a comment, each as its length and a new
-- line before it, and answers with the error that directive.lua has of them, "" for none,
-- and with what lacks has where there is none.
local V = dofile(arg[1] .. "/values.lua")
local D = assert(loadfile(arg[1] .. "/directive.lua"))(V)

local function say(text) io.write(#text, "\n", text) end

while true do
	local n = io.read("*l")
	if not n then break end
	local script = io.read(tonumber(n))
	local comment = io.read(tonumber((io.read("*l"))))
	local own, _, err = D.own(script or "", comment or "")
	say(err or "")
	say(own and D.lacks(own) or "")
end
