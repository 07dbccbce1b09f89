-- That a list of its account has shown an instance: what lists show under two names of an account proves that they are one.
ALTER TABLE instances ADD COLUMN shown INTEGER NOT NULL DEFAULT 0;
