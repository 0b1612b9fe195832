use asynq_runtime::prelude::*;

/// Makes a picture smaller.
#[job]
#[allow(unused)]
#[rustfmt::skip]
#[inline]
async fn resize(path: String) -> JobResult;

fn main() {}
