-- That the provider never said when the instance ended: ended is when burstd learned of it. Of older rows that is
-- known of those whose end is burstd's own reading of its clock, to the microsecond; what vanished from
-- the lists counts as told, as before.
ALTER TABLE instances ADD COLUMN guessed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE bills ADD COLUMN guessed INTEGER NOT NULL DEFAULT 0;
UPDATE instances SET guessed = 1 WHERE gone > 0 AND ended = gone;
UPDATE bills SET guessed = 1 WHERE gone > 0 AND ended = gone;
