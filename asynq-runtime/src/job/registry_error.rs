//! The reasons for which a set of jobs cannot be served, each with what to write.

use std::fmt;

use super::{JobDescriptor, StateKey};

/// The remedy for a job that is not there although its crate is in `Cargo.toml`.
pub(crate) const LINKED_BY_NAME: &str =
    "jobs of another crate are linked by naming it: `main!(jobs: [that_crate])` or `use that_crate as _;`";

/// A set of jobs that cannot be served, with the reason.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Two jobs have one name or alias.
    #[error("two jobs are named `{name}`: {}; {}", JobPair(first, second), remedy(name, first, second))]
    DuplicateName {
        /// The name.
        name: &'static str,
        /// One of the jobs.
        first: Box<JobDescriptor>,
        /// The other job.
        second: Box<JobDescriptor>,
    },
    /// A job asks for a state that the server was not given.
    #[error("job `{}` ({}) needs State<{}>; give it with `.state(..)` in the set-up", job.name, job.place(), state.name())]
    MissingState {
        /// The job.
        job: Box<JobDescriptor>,
        /// The state.
        state: StateKey,
    },
    /// Tasks of one job would be aggregated into two different jobs.
    #[error(
        "tasks of `{of}` would be aggregated into two jobs: {}; leave one `aggregates` out",
        JobPair(first, second)
    )]
    AggregatedTwice {
        /// The job whose tasks wait in groups.
        of: &'static str,
        /// One of the jobs that would be made of the tasks.
        first: Box<JobDescriptor>,
        /// The other job.
        second: Box<JobDescriptor>,
    },
    /// The tasks of a job that is made of a group could not be stored: with this option they would wait for others.
    #[error("job `{}` ({}) is made of the tasks of a group, and its own task runs by itself: leave `{option}` out", job.name, job.place())]
    AggregatedWaits {
        /// The job that is made of the tasks.
        job: Box<JobDescriptor>,
        /// The option: `group`, `debounce` or `unique`.
        option: &'static str,
    },
    /// A job without a body: this program may enqueue it, not run it.
    #[error("job `{}` ({}) has no body, so another program runs it; leave it out, or write the body", job.name, job.place())]
    Contract {
        /// The job.
        job: Box<JobDescriptor>,
    },
    /// No task of a job could ever be read.
    #[error(
        "job `{}` ({}) has an argument of `{type_name}`, which postcard cannot carry (flattened, untagged, or a `Value`): write \
         `codec = \"json\"`",
        job.name,
        job.place()
    )]
    NotForPostcard {
        /// The job.
        job: Box<JobDescriptor>,
        /// The type that asks for a self-describing format.
        type_name: String,
    },
    /// An upgrade of a job is not asked for old tasks of today's shape, which run with today's meaning of their arguments. A server warns
    /// of it; `jobs --check` and `assert_jobs_locked` refuse it.
    #[error(
        "an upgrade of job `{}` ({}) takes arguments of today's shape, and is not asked for tasks of that shape: give what means something else \
         now a type of its own, such as `struct Cents {{ cents: u64 }}`",
        job.name,
        job.place()
    )]
    IdleUpgrade {
        /// The job.
        job: Box<JobDescriptor>,
    },
    /// The program has no jobs.
    #[error("this program has no jobs: put `#[job]` on a function; {LINKED_BY_NAME}")]
    NoJobs,
}

debug_as_text!(RegistryError);

impl RegistryError {
    /// Returns the error of two jobs of one name. It sorts them by their places, so that the text does not depend on the order of linking.
    pub(super) fn duplicate(name: &'static str, one: &JobDescriptor, other: &JobDescriptor) -> Self {
        let mut places = [Box::new(*one), Box::new(*other)];
        places.sort_by_key(|job| (job.file, job.line, job.type_name()));
        let [first, second] = places;
        Self::DuplicateName { name, first, second }
    }
}

struct JobPair<'a>(&'a JobDescriptor, &'a JobDescriptor);

impl fmt::Display for JobPair<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(first, second) = *self;
        if (first.file, first.line) != (second.file, second.line) {
            return write!(f, "{} and {}", first.place(), second.place());
        }
        // One macro wrote both: only their types tell them apart.
        write!(f, "{} and {}, both written at {}", first.type_name(), second.type_name(), first.place())
    }
}

/// Returns what to do about two jobs of one name.
fn remedy(name: &str, first: &JobDescriptor, second: &JobDescriptor) -> &'static str {
    if first.name != name || second.name != name {
        return "the name is an `alias`: leave the alias out, or give the other job another name";
    }
    let path = |job: &JobDescriptor| job.type_name().split_once("::").map(|(_, path)| path);
    // Library and program of one package are two crates, which may have one name.
    if (first.file, first.line, path(first)) == (second.file, second.line, path(second)) {
        "the file is a module of the library and of the program: leave its `mod` out of main.rs, and `use` the library there"
    } else {
        "rename one of the functions or give it `name = \"…\"`"
    }
}
