-- That there may be files on an instance that its node serves to others. Journals of the days before said it in the
-- reason of a node that is up, which says now why one is to go.
ALTER TABLE instances ADD COLUMN serves INTEGER NOT NULL DEFAULT 0;
UPDATE instances SET serves = 1 WHERE id IN (SELECT instance FROM nodes WHERE phase = 'up' AND reason = 'serves files');
UPDATE nodes SET reason = '' WHERE phase = 'up' AND reason = 'serves files';
CREATE INDEX instances_served ON instances (id) WHERE serves = 1 AND gone > 0;
