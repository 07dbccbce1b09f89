-- When the first of the steps began whose sum a row is (the row without a name); 0: that was not noted. In
-- microseconds since 1970.
ALTER TABLE steps_done ADD COLUMN began INTEGER NOT NULL DEFAULT 0;
-- What has no price is read by instance, so many at a time.
DROP INDEX usage_unpriced;
CREATE INDEX usage_unpriced ON usage (provider, type, zone, market, instance, until) WHERE usd_per_hour IS NULL AND NOT open;
