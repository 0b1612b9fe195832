//! Empty: cargo wants a library or a program in each package, and the tests of this one are those of `asynq-runtime/src`.
