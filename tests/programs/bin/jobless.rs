//! A program without jobs.

asynq_runtime::main!();
