//! Jobs for the tests of codecs and of earlier versions.

use serde::{Deserialize, Serialize};

/// Declares jobs by their fields and, in brackets, further items. Without a name of its own a job is another version of `job`.
macro_rules! jobs {
    (@name) => { "job" };
    (@name $name:literal) => { $name };
    ($($(#[$meta:meta])* $job:ident $($name:literal)? {$($body:tt)*} [$($item:item)*];)*) => {$(
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        $(#[$meta])*
        struct $job {$($body)*}

        impl Job for $job {
            const NAME: &'static str = jobs!(@name $($name)?);
            $($item)*
            type Output = JobResult;
            async fn run(self, _: &JobContext) -> JobResult {
                Ok(())
            }
        }
    )*};
}
pub(super) use jobs;

/// A number of which this version of the program takes other values than the next one.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "u32")]
pub(super) struct Below<const N: u32>(pub(super) u32);

impl<const N: u32> TryFrom<u32> for Below<N> {
    type Error = &'static str;

    fn try_from(n: u32) -> Result<Self, &'static str> {
        if n < N { Ok(Self(n)) } else { Err("too large") }
    }
}
