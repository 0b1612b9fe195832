//! A web dashboard over any asynq broker: pages, a JSON API, metrics and health checks, safe by default.
