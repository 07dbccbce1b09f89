-- How each step of a job went that has ended, in its burst-srun's words, over all
-- attempts; ran, writing and lost in microseconds.
CREATE TABLE steps_done (
  job INTEGER NOT NULL, step TEXT NOT NULL, attempt INTEGER NOT NULL, at INTEGER NOT NULL,
  label TEXT NOT NULL, method TEXT NOT NULL, exit INTEGER NOT NULL, ranks INTEGER NOT NULL,
  ran INTEGER NOT NULL, checkpoints INTEGER NOT NULL, writing INTEGER NOT NULL,
  restarts INTEGER NOT NULL, lost INTEGER NOT NULL, lost_unknown INTEGER NOT NULL,
  iteration INTEGER NOT NULL,
  PRIMARY KEY (job, step)
) STRICT, WITHOUT ROWID;

CREATE INDEX steps_done_at ON steps_done (at);

-- How many generations of the step have counted.
ALTER TABLE blessed ADD COLUMN made INTEGER NOT NULL DEFAULT 1;

-- The runs of jobs of ours, one row each; open until the job has ended for good.
-- submitted is as first seen: a requeue changes Slurm's; whole: that was in attempt 0. ran is of the attempts before
-- the last one, which began at begun. What follows label is written with the end:
-- microseconds, and -1 where it is not known.
CREATE TABLE runs (
  job INTEGER NOT NULL, submitted INTEGER NOT NULL, whole INTEGER NOT NULL, open INTEGER NOT NULL,
  array INTEGER NOT NULL, task TEXT NOT NULL, het INTEGER NOT NULL,
  name TEXT NOT NULL, uid INTEGER NOT NULL, user TEXT NOT NULL, account TEXT NOT NULL,
  partition TEXT NOT NULL, pool TEXT NOT NULL, types TEXT NOT NULL,
  nodes INTEGER NOT NULL, vcpus INTEGER NOT NULL, memory INTEGER NOT NULL,
  -- as the site has measured its pool: Gbit/s between nodes; 0: it has not
  network_gbit REAL NOT NULL, storage_iops REAL NOT NULL,
  started INTEGER NOT NULL, begun INTEGER NOT NULL, ran INTEGER NOT NULL,
  seen INTEGER NOT NULL, ended INTEGER NOT NULL,
  state TEXT NOT NULL, exit INTEGER NOT NULL, signal INTEGER NOT NULL, restarts INTEGER NOT NULL,
  method TEXT NOT NULL, label TEXT NOT NULL,
  ranks INTEGER NOT NULL DEFAULT 0, computing INTEGER NOT NULL DEFAULT -1,
  checkpoints INTEGER NOT NULL DEFAULT 0, writing INTEGER NOT NULL DEFAULT -1,
  evictions INTEGER NOT NULL DEFAULT 0, lost INTEGER NOT NULL DEFAULT -1,
  lost_unknown INTEGER NOT NULL DEFAULT 0, lost_iterations INTEGER NOT NULL DEFAULT -1,
  iteration INTEGER NOT NULL DEFAULT -1,
  -- the end after which what the job asks for (after=) was looked at; 0: none yet
  settled INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (job, submitted)
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_open ON runs (job) WHERE open;
CREATE INDEX runs_ended ON runs (ended) WHERE NOT open;
CREATE INDEX runs_uid ON runs (uid, ended);
CREATE INDEX usage_job ON usage (job, until) WHERE job > 0;
CREATE INDEX evictions_job ON evictions (job);
