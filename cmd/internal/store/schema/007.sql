-- The sessions that burst-sruns have open; hello is what each said last, in JSON.
CREATE TABLE sessions (
  job INTEGER NOT NULL, attempt INTEGER NOT NULL, step TEXT NOT NULL, uid INTEGER NOT NULL,
  token TEXT NOT NULL, began INTEGER NOT NULL, hello TEXT NOT NULL,
  PRIMARY KEY (job, attempt, step)
) STRICT, WITHOUT ROWID;

-- What each attempt of a job was asked last.
CREATE TABLE requests (
  job INTEGER NOT NULL, attempt INTEGER NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL,
  by INTEGER NOT NULL, why TEXT NOT NULL,
  PRIMARY KEY (job, attempt)
) STRICT, WITHOUT ROWID;

-- What each step of an attempt has answered to its last request, in JSON.
CREATE TABLE answers (
  job INTEGER NOT NULL, attempt INTEGER NOT NULL, step TEXT NOT NULL, id TEXT NOT NULL,
  answer TEXT NOT NULL,
  PRIMARY KEY (job, attempt, step)
) STRICT, WITHOUT ROWID;

-- The generation of each step that counts, of the latest attempt that has made
-- one the latest; took in microseconds, at when it was blessed.
CREATE TABLE blessed (
  job INTEGER NOT NULL, step TEXT NOT NULL, attempt INTEGER NOT NULL, n INTEGER NOT NULL,
  dir TEXT NOT NULL, bytes INTEGER NOT NULL, took INTEGER NOT NULL, iteration INTEGER NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (job, step)
) STRICT, WITHOUT ROWID;
