//! Durations and names, parsed alike at compile time by the macros and at run time by `asynq-runtime`.
