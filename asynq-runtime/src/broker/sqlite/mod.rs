//! The SQLite broker.
