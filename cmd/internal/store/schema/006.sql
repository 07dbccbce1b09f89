-- Whose instance it is, as its provider names accounts; '': not known. An empty
-- list of that account means that the instance is gone; another's means nothing.
ALTER TABLE instances ADD COLUMN account TEXT NOT NULL DEFAULT '';

-- The providers whose first list this journal has taken in: it knows all of the
-- cluster's instances there. '' stands for all providers: nothing was launched
-- before the journal was made. Without a row the journal may have replaced a lost one.
CREATE TABLE heard (provider TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
INSERT INTO heard SELECT '' FROM meta WHERE key = 'cluster';
