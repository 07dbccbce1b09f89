-- An attempt of a job that may still run on an instance that Slurm has given
-- up: the job's next attempt waits until the cloud says that it is gone.
CREATE TABLE fences (
  instance TEXT NOT NULL, job INTEGER NOT NULL, restarts INTEGER NOT NULL,
  node TEXT NOT NULL, since INTEGER NOT NULL,
  PRIMARY KEY (instance, job)
) STRICT, WITHOUT ROWID;

-- At most one row: no pool launches, by an admin's word.
CREATE TABLE pause (
  one INTEGER PRIMARY KEY CHECK (one = 1), since INTEGER NOT NULL, by TEXT NOT NULL, why TEXT NOT NULL
) STRICT;
