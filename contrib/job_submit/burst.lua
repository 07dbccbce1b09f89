-- What Slurm's job_submit/lua plugin does for jobs in Burst's partitions: wrong #BURST
-- lines are refused with their line, a site's defaults go where the user said nothing,
-- and a job that asks for checkpoints may be requeued. A job_submit.lua calls it:
--
--	local burst = dofile("/usr/share/burst/job_submit/burst.lua")
--	burst.load("/etc/burst/job_submit_burst.lua")
--	… return burst.submit(job_desc, part_list, submit_uid)
--
-- No error of its own fails a submission: it is logged, and the job passes as it
-- was. slurmctld waits while it runs: it starts nothing, and reads files in load only.

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"

local function part(name, ...)
	local chunk, err = loadfile(here .. name)
	if not chunk then error(err, 0) end
	return chunk(...)
end

local V = part("values.lua")
local D = part("directive.lua", V)

local B = {}

-- The site's file, by partition. Empty: no job is touched.
local partitions = {}

-- The users whose last heterogeneous job is requeued by its leader: its parts come after
-- that, and jobs of others may come between.
local leads = {}

local MOST_COMMENT = 1024 -- bytes; slurmctld refuses longer ones
local MOST_WARNINGS = 3
local MOST_BELOW = 64 * 1024 -- bytes below the first command that are looked at
local MOST_NAMES = 64 * 1024 -- bytes of the names of partitions

local function tell(text) slurm.log_user("%s", "Burst: " .. text) end

-- guarded is a function that lets a job pass where it fails itself.
local function guarded(name, f)
	return function(...)
		local ok, answer = pcall(f, ...)
		if ok then return answer end
		if answer ~= D.TOO_LONG then
			pcall(slurm.log_error, "Burst: %s: the job passes unchecked: %s", name, tostring(answer))
		end
		return slurm.SUCCESS
	end
end

local function entry(name, e)
	if type(name) ~= "string" then error("an entry without a partition's name", 0) end
	local function fail(text) error("partition " .. name .. ": " .. text, 0) end
	if type(e) ~= "table" then fail("is no table: write " .. name .. " = {}") end
	for key in pairs(e) do
		if key ~= "defaults" and key ~= "no_requeue" then fail(tostring(key) .. ": unknown; known are defaults, no_requeue") end
	end
	if e.no_requeue ~= nil and e.no_requeue ~= "warn" and e.no_requeue ~= "refuse" then fail('no_requeue: is neither "warn" nor "refuse"') end
	local line = e.defaults or ""
	if type(line) ~= "string" then fail("defaults: is no text") end
	local own, _, err = D.own("", "burst: " .. line)
	err = err or D.lacks(own)
	if err then fail("defaults: " .. err:gsub("^job comment:? ?", "")) end
	return { defaults = D.read_comment("burst: " .. line), refuses = e.no_requeue == "refuse" }
end

-- load reads the site's file. One that cannot be read, or is wrong, is logged, and no
-- job is touched.
function B.load(path)
	local ok, err = pcall(function()
		local read, of = {}, dofile(path)
		if type(of) ~= "table" then error("it returns no table: its first word must be return", 0) end
		for name, e in pairs(of) do read[name] = entry(name, e) end
		partitions = read
	end)
	if not ok then
		slurm.log_error("Burst: %s is not used, all jobs pass unchecked: %s", path, tostring(err))
	end
end

-- site is the entry of the first of Burst's partitions that a job may run in.
local function site(names, part_list)
	if names == nil or names == "" then
		for name, p in pairs(part_list) do
			if p.flag_default == 1 then names = name end
		end
	end
	for name in (names or ""):sub(1, MOST_NAMES):gmatch("[^,]+") do
		if partitions[name] then return partitions[name] end
	end
end

-- fill puts the site's defaults in front of what a comment says, behind a word of their
-- own: they count as burst.toml's do, not as the user's. A comment of another kind is kept
-- behind a #, where Burst reads no further. It returns what then holds, by key.
local function fill(job, own, said, defaults)
	local m, given = D.with(own, said, defaults)
	local old, words = V.trim(job.comment or ""), {}
	local text = D.behind(old)
	for i, s in ipairs(given) do words[i] = D.write(s) end
	if #words > 0 then
		local rest = (text == "" or text:find("^burst:") or text:find("^#")) and text or "# " .. text
		text = V.trim("burst-site: " .. table.concat(words, " ") .. " " .. rest)
	end
	if #words > 0 and #text > MOST_COMMENT then
		tell("the job's comment leaves no room for this partition's defaults: they are left out")
		return own
	end
	if text ~= old then job.comment = text end
	return m
end

-- asks says whether a job is to go on where it was, after an eviction. A signal of the
-- site's is not sent to one whose user has named a method that needs none, or ckpt=none.
local function asks(own, m)
	local method = m.ckpt and m.ckpt.value or "none"
	local startles = not own.signal and own.ckpt and method ~= "signal"
	return m.signal ~= nil and not startles or method ~= "none" and not (m.strategy and m.strategy.value == "none")
end

-- requeue lets Slurm start a job again that wants it. It returns why the job is refused.
local function requeue(job, wanted, refuses)
	if not wanted or job.requeue == 1 then return nil end
	if job.requeue ~= 0 then
		job.requeue = 1
	elseif refuses then
		return "the job asks for checkpoints and cannot be requeued: leave --no-requeue out, or write #BURST ckpt=none"
	else
		tell("warning: the job asks for checkpoints, but with --no-requeue it ends with its node")
	end
end

-- overlooked warns of lines that look like directives and are none.
local function overlooked(script)
	local left = MOST_WARNINGS
	local function warn(number, text)
		left = left - 1
		if left >= 0 then tell("warning: line " .. number .. ": " .. text) end
	end
	local at, number = D.head(script, function(line, number)
		local word = line:match("^[^ \t]+") or ""
		if word ~= "#BURST" and word:sub(1, 6):upper() == "#BURST" and not word:find("[^:]", 7) then
			warn(number, "is a comment: a directive begins with #BURST and a blank")
		end
	end)
	script, number = "\n" .. script:sub(at, at + MOST_BELOW), number - 1
	at = 1
	while left > 0 do
		local found, last = script:find("\n[ \t]*#BURST", at)
		if not found then return end
		local _, lines = script:sub(at, found):gsub("\n", "")
		at, number = found + 1, number + lines
		if last == #script or script:find("^[ \t\r\n]", last + 1) then
			warn(number, "#BURST is below the first command, and is not read")
		end
	end
end

-- one are what checkpoints what runs on one node.
local one = { dmtcp = true, criu = true, blcr = true }

local function advise(job, m)
	local folder = m.dir and V.clean(m.dir.value) or ""
	for _, alone in ipairs({ "/tmp", "/var/tmp", "/dev/shm", "/run", "/local" }) do
		if folder == alone or folder:sub(1, #alone + 1) == alone .. "/" then
			tell("warning: dir=" .. m.dir.value .. " is as a rule a node's own, and gone with it: name a folder that all nodes share")
		end
	end
	local method = m.ckpt and m.ckpt.value
	if method == "command" and m.preset then method = m.preset.value end
	local nodes = job.min_nodes or 0
	if one[method] and nodes > 1 and nodes < 65533 then
		tell("warning: " .. method .. " checkpoints what runs on one node, and the job asks for " .. string.format("%d", nodes))
	end
end

local function refuse(text)
	tell(text)
	return slurm.ERROR
end

local function submit(job, part_list, uid)
	local offset = job.het_job_offset
	local leader, follows = offset == 0, offset and offset > 0 and offset < 65533
	if leader then leads[uid] = nil end
	-- What is said of the leader is for all, in whatever partition, and it is requeued by the leader.
	if follows and leads[uid] and job.requeue ~= 0 then job.requeue = 1 end
	local s = site(job.partition, part_list)
	if not s then return slurm.SUCCESS end
	local script = job.script
	local own, said, err = D.own(script or "", job.comment or "")
	if err then return refuse(err) end
	if follows or not script then return slurm.SUCCESS end -- of salloc or srun: it is never requeued
	local m = fill(job, own, said, s.defaults)
	local wanted = asks(own, m)
	local why = requeue(job, wanted, s.refuses)
	if why then return refuse(why) end
	if leader and wanted and job.requeue == 1 then leads[uid] = true end
	overlooked(script)
	advise(job, m)
	return slurm.SUCCESS
end

local function modify(change, job, part_list)
	if not change.comment or not site(change.partition or job.partition, part_list) then return slurm.SUCCESS end
	local _, _, err = D.own("", change.comment)
	return err and refuse(err) or slurm.SUCCESS
end

-- submit and modify are what slurm_job_submit and slurm_job_modify return.
B.submit = guarded("submit", submit)
B.modify = guarded("modify", modify)

return B
