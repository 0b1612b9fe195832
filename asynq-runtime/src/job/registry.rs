//! Which job runs a task: name → descriptor, checked once at start.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{Job, JobDescriptor, StateKey, StateMap};

/// The jobs of a server.
#[derive(Debug, Clone, Default)]
pub struct Registry(Arc<BTreeMap<&'static str, JobDescriptor>>);

/// A set of jobs that cannot be served, with the reason.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Two jobs answer to one name.
    #[error(
        "two jobs are named `{name}`: {} and {}; rename one of the functions or give it `name = \"…\"`",
        Place(first),
        Place(second)
    )]
    DuplicateName {
        /// The name.
        name: &'static str,
        /// One of them.
        first: Box<JobDescriptor>,
        /// The other.
        second: Box<JobDescriptor>,
    },
    /// A job asks for a state that the server was not given.
    #[error("job `{}` ({}) needs State<{}>; give it with `.state(..)` in the set-up", job.name, Place(job), state.name())]
    MissingState {
        /// The job.
        job: Box<JobDescriptor>,
        /// The state.
        state: StateKey,
    },
    /// There is nothing to serve.
    #[error(
        "this program has no jobs: put `#[job]` on a function; jobs of another crate are linked by naming it: \
         `asynq_runtime::main!(jobs: [that_crate])` or `use that_crate as _;`"
    )]
    NoJobs,
}

struct Place<'a>(&'a JobDescriptor);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.file, self.0.line)
    }
}

impl Registry {
    /// Every job that is linked into this program. The order of linking means nothing.
    ///
    /// # Errors
    ///
    /// Two jobs of one name.
    pub fn linked() -> Result<Self, RegistryError> {
        Self::from_descriptors(inventory::iter::<JobDescriptor>().copied())
    }

    /// Just the jobs of the tuple `S`, such as `Registry::only::<(send_email, resize)>()`.
    ///
    /// # Errors
    ///
    /// Two jobs of one name.
    pub fn only<S: JobSet>() -> Result<Self, RegistryError> {
        Self::from_descriptors(S::descriptors())
    }

    /// The jobs of these descriptors.
    ///
    /// # Errors
    ///
    /// Two jobs of one name at different places.
    pub fn from_descriptors(jobs: impl IntoIterator<Item = JobDescriptor>) -> Result<Self, RegistryError> {
        let mut map = BTreeMap::<&'static str, JobDescriptor>::new();
        for job in jobs {
            match map.insert(job.name, job) {
                Some(first) if (first.file, first.line) != (job.file, job.line) => {
                    let (first, second) = (Box::new(first), Box::new(job));
                    return Err(RegistryError::DuplicateName { name: job.name, first, second });
                }
                _ => {}
            }
        }
        Ok(Self(Arc::new(map)))
    }

    /// The job of this name.
    pub fn get(&self, name: &str) -> Option<&JobDescriptor> {
        self.0.get(name)
    }

    /// Every job, by name.
    pub fn iter(&self) -> impl Iterator<Item = &JobDescriptor> {
        self.0.values()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that every state that a job requires is there.
    ///
    /// # Errors
    ///
    /// The first job, by name, that lacks one.
    pub fn check_states(&self, states: &StateMap) -> Result<(), RegistryError> {
        for job in self.iter() {
            if let Some(&state) = job.requires.iter().find(|&&state| !states.contains(state)) {
                return Err(RegistryError::MissingState { job: Box::new(*job), state });
            }
        }
        Ok(())
    }
}

/// A tuple of jobs.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tuple of jobs",
    label = "expected a tuple of jobs",
    note = "write `(send_email, resize)`; a single job is `(send_email,)`"
)]
pub trait JobSet {
    /// Their descriptors.
    fn descriptors() -> Vec<JobDescriptor>;
}

macro_rules! job_set {
    ($($job:ident)*) => {
        impl<$($job: Job),*> JobSet for ($($job,)*) {
            fn descriptors() -> Vec<JobDescriptor> {
                vec![$(JobDescriptor::of::<$job>(std::any::type_name::<$job>(), 0)),*]
            }
        }
    };
}

job_set!();
job_set!(A);
job_set!(A B);
job_set!(A B C);
job_set!(A B C D);
job_set!(A B C D E);
job_set!(A B C D E F);
job_set!(A B C D E F G);
job_set!(A B C D E F G H);
