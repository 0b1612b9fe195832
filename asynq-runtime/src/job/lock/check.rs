//! Compares a `jobs.lock` with the jobs of a program.

use std::fmt;

use super::{
    JobsLock, LockedShape, sample,
    tried::{Answer, Trial},
};
use crate::job::{
    JobDescriptor, JobOptions, PayloadError, Registry,
    codec::{POSTCARD, header},
    shape::ShapeDocument,
};

/// The effect of a deploy on waiting tasks of one shape.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockFinding {
    /// The name that the tasks have.
    pub job: String,
    /// The shape of the tasks, for people.
    pub shape: String,
    /// The effect on the tasks.
    pub verdict: Verdict,
}

/// The effect of a deploy on waiting tasks of one shape, worst last.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The tasks run.
    Safe,
    /// The tasks run, unless something changed in a part of the shape that is not known: the known part is today's.
    KnownPartUnchanged,
    /// The tasks run, but wait in this queue, which is not the job's any more. A worker that runs only some jobs, or that is told its
    /// queues, may not serve it.
    OtherQueue(String),
    /// Nothing says that tasks wait, but not everything could be tried: a type checks its values by rules of its own and
    /// refused samples, or a part of the shape is not known, or the shape is too deep or too large.
    CannotBeTold,
    /// Today's shape is not in the file: write it by `jobs --lock`.
    NotLocked,
    /// The tasks wait in this queue, which a worker of this program does not serve by itself.
    UnservedQueue(String),
    /// The tasks keep waiting, because this argument or field is new and has no default; none is gone beside it.
    NeedsDefault(String),
    /// The tasks keep waiting, because this argument or field is new and has no default; others of the same shape are gone, so that
    /// the new one may be one of them under another name. A default would lose its values.
    NeedsAlias {
        /// The new argument or field.
        field: String,
        /// Those that are gone, at least one. Where they are several, their order says nothing about which one was renamed.
        earlier: Vec<String>,
    },
    /// The tasks keep waiting, because not all of their values can be read, for this reason, which may be that an argument or field is
    /// new beside others that are gone: a default would lose their values.
    NeedsUpgrade(String),
    /// The tasks keep waiting, because the job is gone. These new ones, at least one, take the same arguments, so that one of them
    /// may be the job under another name; any other would run its tasks.
    LooksRenamed(Vec<String>),
    /// The tasks keep waiting, because the job is gone.
    Gone,
}

impl LockFinding {
    /// Returns whether the deploy strands none of these tasks, and the file needs no change.
    pub fn is_safe(&self) -> bool {
        self.verdict.is_safe()
    }
}

impl Verdict {
    fn is_safe(&self) -> bool {
        matches!(self, Self::Safe | Self::KnownPartUnchanged | Self::OtherQueue(_) | Self::CannotBeTold)
    }
}

impl fmt::Display for LockFinding {
    /// Writes one line: the effect on the tasks, and the advice.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_safe() { "safe  " } else { "UNSAFE" };
        write!(f, "{word}  {} {}", self.job, self.shape)?;
        match &self.verdict {
            Verdict::Safe => Ok(()),
            Verdict::KnownPartUnchanged => f.write_str(": the known part of its shape is unchanged"),
            Verdict::OtherQueue(queue) => write!(
                f,
                ": its queue changed, and waiting tasks are in `{queue}`, which a worker of this job serves unless --only or \
                 --queues leaves it out"
            ),
            Verdict::CannotBeTold => {
                f.write_str(": samples do not tell whether all of them fit; try it with real tasks")
            }
            Verdict::NotLocked => f.write_str(": not in jobs.lock; write it by `jobs --lock` and commit it"),
            Verdict::UnservedQueue(queue) => write!(
                f,
                ": queue changed: tasks wait in `{queue}`, which no job here names; name it beside the others in \
                 --queues of a worker, or start a further worker for it"
            ),
            Verdict::NeedsDefault(field) => {
                write!(f, ": needs a default: write #[serde(default)] on `{field}`, or make it an Option")
            }
            Verdict::NeedsAlias { field, earlier } => match earlier.as_slice() {
                [earlier] => write!(
                    f,
                    ": looks like a rename of `{earlier}` to `{field}`: write #[serde(alias = \"{earlier}\")] on `{field}`; a default \
                     is for a new one, and loses `{earlier}`"
                ),
                several => write!(
                    f,
                    ": looks like a rename of `{}` to `{field}`: write #[serde(alias = \"...\")] on `{field}` with the name that it \
                     had, because another one swaps the values; a default is for a new one, and loses them",
                    several.join("` or `")
                ),
            },
            Verdict::NeedsUpgrade(reason) => write!(
                f,
                ": needs an upgrade ({reason}): write #[job(upgrade = from_v1)] on `{}` with a function from these \
                 arguments, beside any other upgrade; that of another job does not hold here",
                self.job
            ),
            Verdict::LooksRenamed(new) => {
                let (one_of, there) = if new.len() > 1 { ("one of ", "on that one") } else { ("", "there") };
                write!(
                    f,
                    ": the job is gone; if it is {one_of}`{}` now, write #[job(alias = \"{}\")] {there}; another job would run its \
                     tasks, so else keep it until none of them waits, then take this line out",
                    new.join("`, `"),
                    self.job
                )
            }
            Verdict::Gone => write!(
                f,
                ": the job is gone; if another job is it now, write #[job(alias = \"{}\")] there, else keep it until none of its \
                 tasks waits, then take this line out",
                self.job
            ),
        }
    }
}

pub(super) fn check(lock: &JobsLock, registry: &Registry) -> Vec<LockFinding> {
    let find = |shape: &LockedShape, verdict| LockFinding { job: shape.job.clone(), shape: shape.text(), verdict };
    let locked = lock.0.iter().map(|shape| find(shape, verdict(shape, lock, registry)));
    let today = registry.iter().map(LockedShape::of).filter(|shape| !lock.0.contains(shape));
    locked.chain(today.map(|shape| find(&shape, Verdict::NotLocked))).collect()
}

fn verdict(shape: &LockedShape, lock: &JobsLock, registry: &Registry) -> Verdict {
    let Some(job) = registry.get(&shape.job) else {
        let is_new = |job: &&JobDescriptor| !lock.0.iter().any(|known| known.job == job.name);
        let same = |job: &&JobDescriptor| {
            let today = LockedShape::of(job);
            today.shape == shape.shape && today.document() == shape.document()
        };
        let new: Vec<String> = registry.iter().filter(is_new).filter(same).map(|job| job.name.to_owned()).collect();
        return if new.is_empty() { Verdict::Gone } else { Verdict::LooksRenamed(new) };
    };
    let today = LockedShape::of(job);
    let has_another_name = || today.fingerprint.is_some() && shape.number().is_some_and(|it| job.fingerprint().is(it));
    let is_todays = today.fingerprint == shape.fingerprint || has_another_name();
    let tried = if is_todays && today.document == shape.document {
        if job.fingerprint().complete { Verdict::Safe } else { Verdict::KnownPartUnchanged }
    } else {
        match shape.document() {
            Some(document) => readable(shape, &document, job),
            None if job.fingerprint().no_arguments => Verdict::Safe,
            None if shape.is_json() => Verdict::CannotBeTold,
            None if has_upgrade(shape, job) => Verdict::CannotBeTold,
            // A worker finds no more of the shape in the broker than there is in the file.
            None => Verdict::NeedsUpgrade("its shape is not kept".to_owned()),
        }
    };
    if !tried.is_safe() || shape.queue == today.queue {
        return tried;
    }
    // A worker serves the default queue even if none of its jobs names a queue.
    let is_default = shape.queue == JobOptions::DEFAULT_QUEUE;
    let is_served = is_default || registry.iter().any(|job| job.options.queue == shape.queue);
    let queue = shape.queue.clone();
    match tried {
        _ if !is_served => Verdict::UnservedQueue(queue),
        Verdict::CannotBeTold => Verdict::CannotBeTold,
        _ => Verdict::OtherQueue(queue),
    }
}

/// Tries whether today's job takes values of an earlier shape, as a worker would read them.
fn readable(shape: &LockedShape, document: &ShapeDocument, job: &JobDescriptor) -> Verdict {
    let trial = Trial::new(shape, document, job);
    let (mut is_made, mut is_cut, mut is_all_read) = (false, false, true);
    for is_little in [true, false] {
        let samples = sample::samples(document, is_little);
        is_cut |= samples.is_cut;
        is_all_read &= !samples.has_unknown;
        for sample in samples.values {
            let answer = trial.answer(&sample);
            is_made |= answer != Answer::NotMade;
            is_all_read &= answer == Answer::Taken;
            if let Answer::Refused(reason) = answer {
                return advice(reason, document, &job.fingerprint().document);
            }
        }
    }
    match (is_made, is_all_read && !is_cut) {
        // No value of the shape can be made: a worker cannot read one by its shape either, but by an upgrade.
        (false, _) if !is_cut && !shape.is_json() && !has_upgrade(shape, job) => {
            Verdict::NeedsUpgrade("its shape is known in part only".to_owned())
        }
        (true, true) => Verdict::Safe,
        _ => Verdict::CannotBeTold,
    }
}

/// Returns the advice about a value of the shape `before` that the job of today's shape refuses for this reason.
fn advice(reason: String, before: &ShapeDocument, today: &ShapeDocument) -> Verdict {
    // Where several arguments become one, or one becomes several, the reason tells nothing of a rename.
    let earlier: Vec<String> = before.like_only_argument(today).into_iter().map(str::to_owned).collect();
    if let (Some(field), false) = (&today.argument, earlier.is_empty()) {
        return Verdict::NeedsAlias { field: field.clone(), earlier };
    }
    let fields = today.like_only_argument(before);
    if let (Some(earlier), false) = (&before.argument, fields.is_empty()) {
        return Verdict::NeedsAlias { field: fields.join("` or `"), earlier: vec![earlier.clone()] };
    }
    let Some(field) = reason.contains("missing").then(|| quoted(&reason)).flatten() else {
        return Verdict::NeedsUpgrade(reason);
    };
    let earlier: Vec<String> = before.earlier_names(today, &field).into_iter().map(str::to_owned).collect();
    if !earlier.is_empty() {
        return Verdict::NeedsAlias { field, earlier };
    }
    let gone: Vec<String> = before.gone_beside(today, &field).into_iter().collect();
    if gone.is_empty() {
        return Verdict::NeedsDefault(field);
    }
    Verdict::NeedsUpgrade(format!(
        "`{field}` is new and `{}` gone; with a default such tasks run without the values that are gone",
        gone.join("`, `")
    ))
}

/// Returns whether an upgrade of today's job takes payloads with the number of an earlier shape, whatever is known of that shape.
fn has_upgrade(shape: &LockedShape, job: &JobDescriptor) -> bool {
    let Some(number) = shape.number().filter(|number| !job.fingerprint().is(*number)) else { return false };
    // A payload without arguments reaches the upgrade, which cannot read it.
    !matches!(job.reads(&header(POSTCARD, number), None), Err(PayloadError::UnknownFingerprint { .. }))
}

/// Returns the text in the first pair of back-ticks.
fn quoted(text: &str) -> Option<String> {
    text.split('`').nth(1).map(str::to_owned)
}
