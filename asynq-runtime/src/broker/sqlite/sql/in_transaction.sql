-- Stores a task inside a transaction of the caller's own.

-- name: enqueue
-- Enqueues the row that `Client::row` prepared. ?1 its facts as a JSON object, ?2 message, ?3 extra or null.
INSERT INTO main.enqueue(queue, id, type, msg, due, delay, unique_key, unique_ms, grp, retried, max_retry, timeout, deadline,
  retention, extra, now)
SELECT json_extract(?1, '$.queue'), json_extract(?1, '$.id'), json_extract(?1, '$.type'), ?2, json_extract(?1, '$.due'),
  json_extract(?1, '$.delay'), json_extract(?1, '$.unique_key'), json_extract(?1, '$.unique_ms'), json_extract(?1, '$.group'),
  json_extract(?1, '$.retried'), json_extract(?1, '$.max_retry'), json_extract(?1, '$.timeout'),
  json_extract(?1, '$.deadline'), json_extract(?1, '$.retention'), ?3, json_extract(?1, '$.now');
