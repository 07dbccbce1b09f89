-- What instances cost: one job's share in a piece of an instance's time. The
-- job 0 is time that no job had; its uid is -1. usd_per_hour is the instance's
-- as a whole, NULL where it is not known. A piece lies from began to until.
CREATE TABLE usage (
  instance TEXT NOT NULL, began INTEGER NOT NULL, job INTEGER NOT NULL, until INTEGER NOT NULL,
  provider TEXT NOT NULL, pool TEXT NOT NULL, type TEXT NOT NULL, zone TEXT NOT NULL,
  market TEXT NOT NULL, node TEXT NOT NULL, uid INTEGER NOT NULL, user TEXT NOT NULL,
  account TEXT NOT NULL, share REAL NOT NULL, usd_per_hour REAL, price_date INTEGER NOT NULL,
  price_source TEXT NOT NULL, open INTEGER NOT NULL,
  PRIMARY KEY (instance, began, job)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_open ON usage (instance) WHERE open;
CREATE INDEX usage_until ON usage (until);
CREATE INDEX usage_uid ON usage (uid, until) WHERE uid >= 0;
CREATE INDEX instances_gone ON instances (gone) WHERE gone > 0;
