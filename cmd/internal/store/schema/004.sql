-- What a notice announces, beside its deadline: of several events under one key
-- action and cancelled are the next one's, and event has all of them, as JSON.
-- ahead is the node that was raised in place of the notice's.
ALTER TABLE notices ADD COLUMN action TEXT NOT NULL DEFAULT '';
ALTER TABLE notices ADD COLUMN event TEXT NOT NULL DEFAULT '';
ALTER TABLE notices ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE notices ADD COLUMN ahead TEXT NOT NULL DEFAULT '';
CREATE INDEX notices_open ON notices (deadline) WHERE stage <> 'acked';
CREATE INDEX nodes_instance ON nodes (instance);
