-- The jobs to which burstd has added partitions of a cloud, by a rule of [[overflow]]: written before Slurm
-- is told, so that it is known whose doing a job's partitions are. One row for each time, which is the log;
-- ended = 0: it may still have them, or wait to be given them.
CREATE TABLE overflows (
	job INTEGER NOT NULL, -- of an array's task, the array
	task INTEGER NOT NULL, -- -1: no task
	added INTEGER NOT NULL,
	uid INTEGER NOT NULL,
	user TEXT NOT NULL,
	submitted INTEGER NOT NULL,
	restarts INTEGER NOT NULL,
	rule TEXT NOT NULL,
	was TEXT NOT NULL, -- its own partitions, with commas
	goes TEXT NOT NULL, -- those that were added
	state TEXT NOT NULL,
	why TEXT NOT NULL,
	ended INTEGER NOT NULL DEFAULT 0,
	ended_why TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (job, task, added)
) STRICT;
CREATE UNIQUE INDEX overflows_open ON overflows (job, task) WHERE ended = 0;
CREATE INDEX overflows_added ON overflows (added);
