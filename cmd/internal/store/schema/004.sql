-- What a notice announces, beside its deadline; of the jobs under it, that they are asked.
ALTER TABLE notices ADD COLUMN action TEXT NOT NULL DEFAULT '';
ALTER TABLE notices ADD COLUMN event TEXT NOT NULL DEFAULT '';
ALTER TABLE notices ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0;
CREATE INDEX notices_open ON notices (deadline) WHERE stage <> 'acked';
CREATE INDEX nodes_instance ON nodes (instance);
