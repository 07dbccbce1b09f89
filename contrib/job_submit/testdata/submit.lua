-- submit.lua FOLDER: what burst.lua does with jobs, under a slurm of our own. It reads the
-- path of the site's file and then jobs, all as texts with their length before them;
-- "nil" is none. Of each job it answers with what is returned, and then holds.
local said, stolen = {}, nil

slurm = { SUCCESS = 0, ERROR = -1 }
function slurm.log_user(form, ...) said[#said + 1] = "user: " .. string.format(form, ...) end
function slurm.log_error(form, ...) said[#said + 1] = "log: " .. string.format(form, ...) end

local function read()
	local n = io.read("*l")
	local text = n and (io.read(tonumber(n)) or "")
	if text ~= "nil" then return text end
end
local function say(v)
	v = tostring(v)
	io.write(#v, "\n", v)
end

local burst = dofile(arg[1] .. "/burst.lua")
burst.load(read())
-- Nothing but load may start a program or read a file.
for _, name in ipairs({ "io", "os" }) do
	for f in pairs(_G[name]) do
		if f ~= "read" and f ~= "write" and f ~= "clock" then
			_G[name][f] = function() stolen = name .. "." .. f end
		end
	end
end
dofile = function() stolen = "dofile" end
loadfile, require = dofile, dofile

say(table.concat(said, "\n"))
local part_list = { cloud = { flag_default = 0 }, onprem = { flag_default = 1 }, spot = { flag_default = 0 } }
while true do
	local kind = read()
	if not kind then break end
	said = {}
	local job = { partition = read(), comment = read(), script = read(), requeue = tonumber(read()),
		het_job_offset = tonumber(read()), min_nodes = tonumber(read()) }
	local touched = setmetatable({}, { __index = function(_, key)
		if kind == "broken" and key == "comment" then error("the field is odd") end
		return job[key]
	end, __newindex = function(_, key, v) job[key] = v end })
	local rc
	local begun = os.clock()
	if kind == "modify" then
		rc = burst.modify(touched, { partition = "cloud" }, part_list, 1000)
	else
		rc = burst.submit(touched, part_list, kind == "other" and 1001 or 1000)
	end
	local took = os.clock() - begun
	say(rc)
	say(job.comment)
	say(string.format("%d", job.requeue))
	say(table.concat(said, "\n"))
	say(stolen or "")
	say(string.format("%.6f", took))
end
