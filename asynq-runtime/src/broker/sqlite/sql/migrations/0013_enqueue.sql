-- Version 1013: a view to enqueue by from any program's own transaction, as produce.rs does it. Version 1002 had it first; since
-- 1008 a task gets its row among those of its queue, as in `insert` of produce.sql, and here a lock whose task is gone refuses nothing.
-- Since 1010 a group that is the empty text is refused: no walk over the groups finds it. Since 1011 times that are texts are refused:
-- SQLite reads '10m' as 10, and takes each text for later than each number. Since 1012 a text that is a whole number is one, because some
-- drivers bind numbers so; since 1013 it is one for a lock, too, as is a float without a fraction, as which JavaScript's drivers bind numbers.
-- A taken id and a held unique lock are UNIQUE errors of `task.id` and `ulock.key`, which undo this statement alone; with
-- INSERT OR IGNORE such a row is left out. Times are Unix milliseconds, spans milliseconds; timeout, deadline and retention
-- are asynq's whole seconds, repeated from the message. `now` replaces SQLite's clock where a program has another.
DROP VIEW IF EXISTS main.enqueue;
CREATE VIEW main.enqueue(queue, id, type, msg, due, delay, unique_key, unique_ms, grp, retried, max_retry, timeout, deadline,
  retention, extra, now)
AS SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE 0;

CREATE TRIGGER main.enqueue_task INSTEAD OF INSERT ON [enqueue]
BEGIN
  SELECT RAISE(ABORT, 'enqueue: queue, id and type must be texts that are not empty, and msg a task message (a blob)')
  WHERE typeof(new.queue) <> 'text' OR new.queue = '' OR typeof(new.id) <> 'text' OR new.id = ''
    OR typeof(new.type) <> 'text' OR new.type = '' OR typeof(new.msg) <> 'blob';
  SELECT RAISE(ABORT, 'enqueue: a unique lock needs both, unique_key (a text) and unique_ms (a whole number above 0)')
  WHERE (new.unique_key IS NOT NULL OR new.unique_ms IS NOT NULL)
    AND (typeof(new.unique_key) <> 'text' OR new.unique_ms IS NULL OR CAST(new.unique_ms AS INTEGER) <> new.unique_ms
      OR CAST(new.unique_ms AS INTEGER) <= 0);
  SELECT RAISE(ABORT, 'enqueue: grp must be NULL, or a text that is not empty')
  WHERE new.grp IS NOT NULL AND (typeof(new.grp) <> 'text' OR new.grp = '');
  SELECT RAISE(ABORT, 'enqueue: due, delay and now must be numbers (of milliseconds)')
  WHERE typeof(new.due) IN ('text', 'blob') AND CAST(CAST(new.due AS INTEGER) AS TEXT) <> new.due
    OR typeof(new.delay) IN ('text', 'blob') AND CAST(CAST(new.delay AS INTEGER) AS TEXT) <> new.delay
    OR typeof(new.now) IN ('text', 'blob') AND CAST(CAST(new.now AS INTEGER) AS TEXT) <> new.now;

  -- What is in the way is inserted a second time, for the error. Under the caller's OR IGNORE and OR REPLACE that is none.
  INSERT INTO [task](q, state, at, id, type)
  SELECT t.q, t.state, t.at, t.id, t.type FROM [task] AS t
  WHERE t.q = (SELECT q FROM [queue] WHERE name = new.queue) AND t.id = new.id;
  SELECT CASE changes() WHEN 0 THEN RAISE(IGNORE) ELSE RAISE(ABORT, 'enqueue: a task is never replaced') END
  FROM [task] AS t WHERE t.q = (SELECT q FROM [queue] WHERE name = new.queue) AND t.id = new.id;
  INSERT INTO [ulock](q, key, id, until)
  SELECT l.q, l.key, l.id, l.until FROM [ulock] AS l
  WHERE l.q = (SELECT q FROM [queue] WHERE name = new.queue) AND l.key = new.unique_key
    AND l.until > coalesce(new.now + 0, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
    AND EXISTS (SELECT 1 FROM [task] AS h WHERE h.q = l.q AND h.id = l.id);
  SELECT CASE changes() WHEN 0 THEN RAISE(IGNORE) ELSE RAISE(ABORT, 'enqueue: a unique lock is never replaced') END
  FROM [ulock] AS l
  WHERE l.q = (SELECT q FROM [queue] WHERE name = new.queue) AND l.key = new.unique_key
    AND l.until > coalesce(new.now + 0, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
    AND EXISTS (SELECT 1 FROM [task] AS h WHERE h.q = l.q AND h.id = l.id);

  INSERT INTO [queue](name) SELECT new.queue WHERE NOT EXISTS (SELECT 1 FROM [queue] WHERE name = new.queue);
  INSERT INTO [task](seq, q, state, at, since, id, type, retried, max_retry, timeout, deadline, retention, uniq, grp, extra)
  SELECT
    (SELECT nullif(coalesce(max(seq) + 1, q.q << 40), (q.q << 40) + (1 << 40)) FROM [task] WHERE seq >= q.q << 40 AND seq < (q.q << 40) + (1 << 40)),
    q.q,
    CASE WHEN t.due > t.now THEN 3 WHEN new.grp IS NOT NULL THEN 7 ELSE 2 END,
    CASE WHEN t.due > t.now THEN t.due WHEN new.grp IS NOT NULL THEN t.now
      ELSE max(t.now, coalesce((SELECT line.at + (line.seq >= (q.q << 40) + (1 << 40)) FROM [task] AS line
        WHERE line.q = q.q AND line.state = 2 ORDER BY line.at DESC, line.seq DESC LIMIT 1), t.now)) END,
    t.now, new.id, new.type, coalesce(new.retried, 0), coalesce(new.max_retry, 25), coalesce(new.timeout, 0),
    coalesce(new.deadline, 0), coalesce(new.retention, 0), new.unique_key, new.grp, new.extra
  FROM [queue] AS q, (SELECT c.now, coalesce(c.now + new.delay, new.due + 0, c.now) AS due
    FROM (SELECT coalesce(new.now + 0, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)) AS now) AS c) AS t
  WHERE q.name = new.queue;
  -- The body of a task that was deleted by hand must not refuse the body of the new task in its row.
  DELETE FROM [body] WHERE seq = (SELECT t.seq FROM [task] AS t WHERE t.q = (SELECT q FROM [queue] WHERE name = new.queue) AND t.id = new.id);
  INSERT INTO [body](seq, msg)
  SELECT t.seq, new.msg FROM [task] AS t WHERE t.q = (SELECT q FROM [queue] WHERE name = new.queue) AND t.id = new.id;
  -- The time of a lock begins when the task is due.
  INSERT INTO [ulock](q, key, id, until)
  SELECT t.q, t.uniq, t.id, CASE t.state WHEN 3 THEN t.at ELSE t.since END + new.unique_ms FROM [task] AS t
  WHERE t.q = (SELECT q FROM [queue] WHERE name = new.queue) AND t.id = new.id AND t.uniq IS NOT NULL
  ON CONFLICT(q, key) DO UPDATE SET id = excluded.id, until = excluded.until;
  INSERT INTO [tally](q, state, n)
  SELECT t.q, t.state, 1 FROM [task] AS t
  WHERE t.q = (SELECT q FROM [queue] WHERE name = new.queue) AND t.id = new.id
  ON CONFLICT(q, state) DO UPDATE SET n = n + excluded.n;
END;
