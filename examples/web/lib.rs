//! Examples that need the dashboard; they are a package of their own so that the others are built without it.
