-- Of an offering of which fewer came than a launch of all or nothing wanted: how many, and
-- until when those are paid for.
ALTER TABLE coolings ADD COLUMN most INTEGER NOT NULL DEFAULT 0;
ALTER TABLE coolings ADD COLUMN paid INTEGER NOT NULL DEFAULT 0;
