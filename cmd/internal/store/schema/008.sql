-- What an attempt's steps are asked, and until when; when the attempt began; what it
-- has lost: microseconds of computing, and the application's iterations; -1: not known;
-- whether the job is held after its requeue, and has been.
ALTER TABLE evictions ADD COLUMN ask TEXT NOT NULL DEFAULT '';
ALTER TABLE evictions ADD COLUMN ask_by INTEGER NOT NULL DEFAULT 0;
ALTER TABLE evictions ADD COLUMN started INTEGER NOT NULL DEFAULT 0;
ALTER TABLE evictions ADD COLUMN lost INTEGER NOT NULL DEFAULT -1;
ALTER TABLE evictions ADD COLUMN lost_iterations INTEGER NOT NULL DEFAULT -1;
ALTER TABLE evictions ADD COLUMN hold INTEGER NOT NULL DEFAULT 0;
ALTER TABLE evictions ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
-- How often in a row the job may be evicted without a new checkpoint; -1: any number.
ALTER TABLE evictions ADD COLUMN retries INTEGER NOT NULL DEFAULT -1;
-- What became of the attempt: moved, its job is in the queue again, or finished.
ALTER TABLE evictions ADD COLUMN ending TEXT NOT NULL DEFAULT '';
UPDATE evictions SET ending = 'moved' WHERE stage = 'done' AND outcome LIKE 'requeued%';
CREATE INDEX evictions_moved ON evictions (ended) WHERE ending = 'moved';
