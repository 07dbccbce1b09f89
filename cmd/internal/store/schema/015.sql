-- What a spot instance's type costs on demand in its zone; NULL: not known, or it is on demand.
ALTER TABLE usage ADD COLUMN on_demand REAL;

-- An instance's time as its provider told it, from the day on which the ledger had its
-- end: ended is 0 if the provider never said when, gone is when it was first missed;
-- registered is when Slurm had the node, 0 if never, -1 if that is not known; unit,
-- least and month are how it is billed, in microseconds; -1: not known.
CREATE TABLE bills (
  instance TEXT PRIMARY KEY, launched INTEGER NOT NULL, ended INTEGER NOT NULL, gone INTEGER NOT NULL,
  registered INTEGER NOT NULL, unit INTEGER NOT NULL DEFAULT -1, least INTEGER NOT NULL DEFAULT -1, month INTEGER NOT NULL DEFAULT -1
) STRICT, WITHOUT ROWID;
INSERT INTO bills (instance, launched, ended, gone, registered)
  SELECT id, launched, ended, gone, (SELECT CASE count(*) WHEN 0 THEN -1 ELSE coalesce(min(nullif(registered, 0)), 0) END
    FROM boots b WHERE b.node = i.node AND b.instance = i.id)
  FROM instances i WHERE gone > 0 AND launched > 0 AND id IN (SELECT instance FROM usage);

-- The sums of usage by day, of the instances that are at their end in it: made with
-- the row that ends an instance, and made anew if the controller's time zone changes.
-- day counts the controller's days since 1970-01-01. use is what a time was that no
-- job had: boot, idle, rest (of the unit that was begun), or '' where nobody can tell.
-- The counts are of instances that are first seen in the row, under its user, account, and
-- at all, and of those that are in it first on its day.
CREATE TABLE usage_dims (
  id INTEGER PRIMARY KEY, provider TEXT NOT NULL, pool TEXT NOT NULL, type TEXT NOT NULL, zone TEXT NOT NULL,
  market TEXT NOT NULL, uid INTEGER NOT NULL, user TEXT NOT NULL, account TEXT NOT NULL, use TEXT NOT NULL,
  UNIQUE (uid, user, account, use, provider, pool, type, zone, market)
) STRICT;
CREATE TABLE usage_days (
  dim INTEGER NOT NULL, day INTEGER NOT NULL, parts INTEGER NOT NULL,
  seconds REAL NOT NULL, usd REAL NOT NULL, unpriced REAL NOT NULL, on_demand REAL NOT NULL, unknown REAL NOT NULL,
  of_all INTEGER NOT NULL, of_user INTEGER NOT NULL, of_account INTEGER NOT NULL, of_day INTEGER NOT NULL,
  PRIMARY KEY (dim, day)
) STRICT, WITHOUT ROWID;
-- The same of each job; of_job counts the instances first seen under it.
CREATE TABLE usage_jobs (
  day INTEGER NOT NULL, job INTEGER NOT NULL, dim INTEGER NOT NULL, parts INTEGER NOT NULL,
  seconds REAL NOT NULL, usd REAL NOT NULL, unpriced REAL NOT NULL, on_demand REAL NOT NULL, unknown REAL NOT NULL,
  of_job INTEGER NOT NULL,
  PRIMARY KEY (day, job, dim)
) STRICT, WITHOUT ROWID;
-- The instances that were there at the beginning of a day, after their first moment.
CREATE TABLE usage_nights (day INTEGER NOT NULL, instance TEXT NOT NULL, PRIMARY KEY (day, instance)) STRICT, WITHOUT ROWID;
