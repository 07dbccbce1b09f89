-- In whose account a launch was asked for, as its provider names accounts; '': not known. What came of it can be
-- learnt there alone.
ALTER TABLE launches ADD COLUMN account TEXT NOT NULL DEFAULT '';
