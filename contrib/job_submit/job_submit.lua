-- For a site without a job_submit.lua of its own: beside slurm.conf, with
-- JobSubmitPlugins=lua. A site with one puts the parts marked (1), (2) and (3) into it.
-- Slurm reads this file again when its time changes: touch it after an edit of the
-- site's file or an upgrade of Burst.

-- (1) Without Burst's files all jobs pass.
local burst
do
	local ok, found = pcall(dofile, "/usr/share/burst/job_submit/burst.lua")
	if ok then
		burst = found
		burst.load("/etc/burst/job_submit_burst.lua")
	else
		slurm.log_error("Burst: all jobs pass unchecked: %s", tostring(found))
	end
end

function slurm_job_submit(job_desc, part_list, submit_uid)
	-- (2) After what the site does itself.
	return burst and burst.submit(job_desc, part_list, submit_uid) or slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
	-- (3)
	return burst and burst.modify(job_desc, job_rec, part_list, modify_uid) or slurm.SUCCESS
end

return slurm.SUCCESS
