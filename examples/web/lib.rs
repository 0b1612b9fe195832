//! Examples that need axum or the dashboard; they are a package of their own so that the others are built without them.
