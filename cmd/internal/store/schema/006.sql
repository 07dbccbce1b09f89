-- Whose instance it is, as its provider names accounts; '': not known. An empty
-- list of that account means that the instance is gone; another's means nothing.
ALTER TABLE instances ADD COLUMN account TEXT NOT NULL DEFAULT '';
