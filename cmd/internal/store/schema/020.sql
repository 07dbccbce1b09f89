-- The instance served files (instances has that only as long as the journal keeps it): what no job had of its time was
-- not idle. The sums by day that have it as idle are made anew.
ALTER TABLE bills ADD COLUMN serves INTEGER NOT NULL DEFAULT 0;
UPDATE bills SET serves = 1 WHERE instance IN (SELECT id FROM instances WHERE serves = 1);
DELETE FROM meta WHERE key = 'usage_zone' AND EXISTS (SELECT 1 FROM bills WHERE serves = 1);
