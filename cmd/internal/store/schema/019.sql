-- What evictions (use lost) and checkpoints (writing) took of each run that has ended and had any of it: a part of
-- the time of its instances in a pool, and of what they cost. Made with the run's end, and with what is booked of its job later.
CREATE TABLE lost_runs (
  job INTEGER NOT NULL, submitted INTEGER NOT NULL, use TEXT NOT NULL, ended INTEGER NOT NULL,
  uid INTEGER NOT NULL, user TEXT NOT NULL, account TEXT NOT NULL, pool TEXT NOT NULL,
  seconds REAL NOT NULL, usd REAL NOT NULL,
  PRIMARY KEY (ended, job, submitted, use, pool)
) STRICT, WITHOUT ROWID;
CREATE INDEX lost_runs_job ON lost_runs (job);
-- Its sums by the day of the end, as usage_days has days.
CREATE TABLE lost_days (
  day INTEGER NOT NULL, uid INTEGER NOT NULL, user TEXT NOT NULL, account TEXT NOT NULL, pool TEXT NOT NULL, use TEXT NOT NULL,
  runs INTEGER NOT NULL, seconds REAL NOT NULL, usd REAL NOT NULL,
  PRIMARY KEY (day, uid, user, account, pool, use)
) STRICT, WITHOUT ROWID;
