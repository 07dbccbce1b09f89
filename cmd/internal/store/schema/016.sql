-- Time that was booked while its price was not to be had: it is priced when that can be had.
CREATE INDEX usage_unpriced ON usage (provider, type, zone, market, until) WHERE usd_per_hour IS NULL AND NOT open;

-- Of the sums of usage by day, what of no job's time is for a user: who had the instance before, or else after.
-- Its cents are in usage_days, too, as nobody's. All the sums are made anew.
CREATE TABLE usage_for (
  day INTEGER NOT NULL, user TEXT NOT NULL, account TEXT NOT NULL, parts INTEGER NOT NULL, usd REAL NOT NULL, unpriced REAL NOT NULL,
  PRIMARY KEY (day, user, account)
) STRICT, WITHOUT ROWID;
DELETE FROM meta WHERE key = 'usage_zone';
