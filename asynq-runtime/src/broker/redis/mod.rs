//! The Redis broker.
