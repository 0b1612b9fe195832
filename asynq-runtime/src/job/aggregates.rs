//! Jobs that are made of many tasks of another job, as `#[job(aggregates = …)]` writes them.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;

use super::{
    EnqueueError, Job, JobDescriptor, PreparedTask,
    resolve::{ShapeLookup, resolve},
};
use crate::panics;

/// A job whose arguments are those of many tasks of [`Of`](Self::Of).
///
/// ```
/// # use asynq_runtime::prelude::*;
/// #[job(group = "digest")]
/// async fn note(text: String) {
///     // A note that does not become a part of a digest runs by itself (docs/groups.md).
///     println!("one note: {text}");
/// }
///
/// #[job(aggregates = note)]
/// async fn digest(notes: Vec<note>) {
///     println!("{} notes", notes.len());
/// }
/// ```
pub trait Aggregates: Job {
    /// The job whose tasks wait in a group.
    type Of: Job;

    /// Makes one job of the tasks, which come in the order in which they joined their group; on Redis those that joined within one
    /// second come by their ids.
    fn aggregate(tasks: Vec<Self::Of>) -> Self;
}

/// An aggregation with its types erased, as the inventory holds it and the server uses it.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Aggregation {
    /// Name of the job whose tasks wait in a group.
    pub(crate) of: &'static str,
    /// The job that is made of those tasks.
    pub(crate) job: JobDescriptor,
    /// The job whose tasks wait in a group, which need not be served here.
    pub(crate) of_job: JobDescriptor,
    make: fn(&[Arguments], Limits) -> Made,
}

inventory::collect!(Aggregation);

/// The arguments of one task.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) payload: Bytes,
    /// The shape that the broker keeps of a payload of another version.
    pub(crate) lookup: Option<Arc<ShapeLookup>>,
}

/// How many bytes the payload of a new task may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The limit of a payload made of several tasks, which are shared out among more payloads above it.
    pub(crate) together: usize,
    /// The limit of a payload made of a single task, which cannot be shared out.
    pub(crate) alone: usize,
}

/// The result of an aggregation; an index is a position in the slice of arguments.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// The new tasks, within the limits.
    pub(crate) tasks: Vec<PreparedTask>,
    /// The payloads that are not a part of a new task, with the reason if they can be read: alone, such a one makes a task that cannot
    /// be encoded or is above the limit.
    pub(crate) left_out: Vec<(usize, Option<String>)>,
}

impl Aggregation {
    /// Returns the aggregation of `J`, written at `file`:`line`; `const`, because the inventory is made of statics.
    pub const fn of<J: Aggregates>(file: &'static str, line: u32) -> Self {
        let (job, of_job) = (JobDescriptor::of::<J>(file, line), JobDescriptor::of::<J::Of>(file, line));
        Self { of: J::Of::NAME, job, of_job, make: make::<J> }
    }

    /// Returns every aggregation that is linked into this program; the order of linking means nothing.
    pub(crate) fn linked() -> impl Iterator<Item = Self> {
        inventory::iter::<Self>().copied()
    }

    /// Returns whether both make the same job of the same tasks.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.job.is_same_job(&other.job) && self.of_job.is_same_job(&other.of_job)
    }

    /// Makes tasks of these arguments.
    pub(crate) fn make(&self, arguments: &[Arguments], limits: Limits) -> Made {
        (self.make)(arguments, limits)
    }
}

partial_debug!(Aggregation { of, job, .. });

fn make<J: Aggregates>(arguments: &[Arguments], limits: Limits) -> Made {
    let mut made = Made::default();
    let (mut from, mut size) = (0, 0_usize);
    for (place, Arguments { payload, .. }) in arguments.iter().enumerate() {
        if size.saturating_add(payload.len()) > limits.together {
            pack::<J>(from..place, arguments, limits, &mut made);
            (from, size) = (place, 0);
        }
        size = size.saturating_add(payload.len());
    }
    pack::<J>(from..arguments.len(), arguments, limits, &mut made);
    made
}

/// Packs these arguments into one task. Halves them and packs both halves if the payload is longer than `limits.together`, because JSON
/// may be longer than the postcard that it came from, or cannot be encoded: so a single bad payload is found and left out, and does not
/// block its whole group.
fn pack<J: Aggregates>(places: Range<usize>, arguments: &[Arguments], limits: Limits, made: &mut Made) {
    let (mut jobs, mut left_out) = (Vec::with_capacity(places.len()), Vec::new());
    for place in places.clone() {
        match read::<J::Of>(&arguments[place]) {
            Some(job) => jobs.push(job),
            None => left_out.push((place, None)),
        }
    }
    let parts = jobs.len();
    let task = (parts > 0).then(|| PreparedTask::from(J::aggregate(jobs)));
    let unencodable = task.as_ref().and_then(|task| match task.checked() {
        Err(error @ EnqueueError::Codec(_)) => Some(error.to_string()),
        // Any other error is one of the job's options, and no fault of these arguments.
        _ => None,
    });
    match (task, unencodable) {
        (Some(task), reason) if (reason.is_some() || task.payload().len() > limits.together) && places.len() > 1 => {
            let middle = places.start + places.len() / 2;
            pack::<J>(places.start..middle, arguments, limits, made);
            pack::<J>(middle..places.end, arguments, limits, made);
        }
        (_, Some(reason)) => made.left_out.push((places.start, Some(reason))),
        (Some(task), None) if task.payload().len() > limits.alone => {
            let (size, limit) = (task.payload().len(), limits.alone);
            let reason = format!("alone it makes a `{}` of {size} bytes, above the limit of {limit}", J::NAME);
            made.left_out.push((places.start, Some(reason)));
        }
        (task, None) => {
            made.tasks.extend(task);
            made.left_out.append(&mut left_out);
        }
    }
}

/// Reads arguments as an attempt does, and catches panics: reading runs user code, and one such task must not block its whole group.
fn read<J: Job>(arguments: &Arguments) -> Option<J> {
    panics::catch(|| resolve(&arguments.payload, arguments.lookup.as_deref())).ok()?.ok()
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::job::{Codec, JobContext, JobResult, decode_arguments, encode_arguments, test_jobs::jobs};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Note {
        text: String,
    }

    impl Job for Note {
        const NAME: &'static str = "note";
        type Output = JobResult;
        async fn run(self, _: &JobContext) -> JobResult {
            Ok(())
        }
    }

    /// A job whose JSON is longer than the postcard of its parts.
    #[derive(Debug, Serialize, Deserialize)]
    #[serde(transparent)]
    struct Digest {
        notes: Vec<Note>,
    }

    impl Job for Digest {
        const NAME: &'static str = "digest";
        const CODEC: Codec = Codec::Json;
        type Output = JobResult;
        async fn run(self, _: &JobContext) -> JobResult {
            Ok(())
        }
    }

    impl Aggregates for Digest {
        type Of = Note;
        fn aggregate(notes: Vec<Note>) -> Self {
            Self { notes }
        }
    }

    fn note(text: &str) -> Bytes {
        encode_arguments(&Note { text: text.into() }).unwrap()
    }

    /// The texts in each task, and the payloads that were left out.
    type Made = (Vec<Vec<String>>, Vec<(usize, Option<String>)>);

    fn made(payloads: &[Bytes], together: usize) -> Made {
        let limits = Limits { together, alone: 2 * together };
        let arguments: Vec<_> =
            payloads.iter().map(|payload| Arguments { payload: payload.clone(), lookup: None }).collect();
        let made = Aggregation::of::<Digest>("here", 1).make(&arguments, limits);
        let texts = |task: PreparedTask| {
            let payload = task.into_result().unwrap().payload.unwrap();
            let notes = decode_arguments::<Digest>(&payload).unwrap().notes;
            let limit = if notes.len() > 1 { limits.together } else { limits.alone };
            assert!(payload.len() <= limit, "{} bytes", payload.len());
            notes.into_iter().map(|note| note.text).collect()
        };
        (made.tasks.into_iter().map(texts).collect(), made.left_out)
    }

    #[test]
    fn all_arguments_become_one_task_in_their_order() {
        let (tasks, left_out) = made(&[note("a"), note("b"), note("c")], 1000);
        assert_eq!((tasks, left_out), (vec![vec!["a".into(), "b".into(), "c".into()]], vec![]));
        assert_eq!(made(&[], 1000), (vec![], vec![]));
    }

    #[test]
    fn an_unreadable_payload_is_left_out() {
        let mut other = note("x").to_vec();
        other[1] ^= 1;
        let (tasks, left_out) = made(&[note("a"), other.into(), b"{"[..].into(), note("b")], 1000);
        assert_eq!(tasks, [["a", "b"]]);
        assert_eq!(left_out, [(1, None), (2, None)]);
    }

    #[test]
    fn more_than_the_limit_becomes_several_tasks() {
        let notes: Vec<_> = (0..20).map(|n| note(&n.to_string())).collect();
        let (tasks, left_out) = made(&notes, 60);
        assert!(tasks.len() > 4, "{tasks:?}");
        let all: Vec<_> = tasks.into_iter().flatten().collect();
        assert_eq!(all, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
        assert!(left_out.is_empty());
        // A single payload cannot be shared out, and has a limit of its own.
        let (tasks, left_out) = made(&[note("a"), note(&"x".repeat(70)), note("b")], 60);
        assert_eq!((tasks.concat().len(), left_out), (3, vec![]));
        let (tasks, left_out) = made(&[note("a"), note(&"x".repeat(120)), note("b")], 60);
        assert_eq!(tasks.concat(), ["a", "b"]);
        let [(1, Some(reason))] = &*left_out else { panic!("{left_out:?}") };
        assert!(reason.contains("above the limit of 120"), "{reason}");
    }

    jobs! {
        Measure "measure" { value: f64 } [];
        Report "report" { values: Vec<Measure> } [const CODEC: Codec = Codec::Json;];
    }

    impl Aggregates for Report {
        type Of = Measure;
        fn aggregate(values: Vec<Measure>) -> Self {
            Self { values }
        }
    }

    #[test]
    fn a_payload_that_the_new_task_cannot_encode_is_left_out_with_the_reason() {
        let payload = |value| encode_arguments(&Measure { value }).unwrap();
        let arguments = [1.0, f64::NAN, 2.0].map(|value| Arguments { payload: payload(value), lookup: None });
        let made = Aggregation::of::<Report>("here", 1).make(&arguments, Limits { together: 1000, alone: 2000 });
        let payloads: Vec<_> = made.tasks.iter().map(|task| String::from_utf8_lossy(task.payload())).collect();
        assert_eq!(payloads, [r#"{"values":[{"value":1.0}]}"#, r#"{"values":[{"value":2.0}]}"#]);
        let [(1, Some(reason))] = &*made.left_out else { panic!("{made:?}") };
        assert!(reason.starts_with("cannot encode the arguments of `report` as json: "), "{reason}");
    }
}
