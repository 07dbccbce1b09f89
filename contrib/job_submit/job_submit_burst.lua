-- The partitions whose jobs Burst looks at when they are submitted; it leaves all
-- others alone. SlurmUser must be able to read this file; touch job_submit.lua after an edit.
--
-- defaults: a #BURST line for jobs whose users say nothing of it; in the job's comment,
-- where squeue -o %k shows it. no_requeue: what becomes of a job that asks for checkpoints and
-- has --no-requeue: "warn" (if nothing is said) or "refuse".

return {
	cloud = { defaults = "ckpt=dmtcp strategy=both interval=30m" },
	-- ["gpu-spot"] = { defaults = "signal=USR1 grace=60s", no_requeue = "refuse" },
}
