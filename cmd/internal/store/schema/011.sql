-- That an admin has stopped the pool. Of those that were stopped before only the reason tells.
ALTER TABLE breakers ADD COLUMN by_hand INTEGER NOT NULL DEFAULT 0;
UPDATE breakers SET by_hand = 1 WHERE stopped > 0 AND why LIKE '% (by uid %)';
