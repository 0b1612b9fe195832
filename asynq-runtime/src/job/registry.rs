//! The registry finds the job of a task: name → descriptor, checked once at start.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use super::{Codec, Job, JobDescriptor, RegistryError, StateKey, StateMap};

/// The jobs of a server.
///
/// ```
/// # use asynq_runtime::prelude::*;
/// #[job]
/// async fn greet(name: String) {}
///
/// let some = Registry::only::<greet>().unwrap();
/// assert_eq!(some.iter().map(|job| job.name).collect::<Vec<_>>(), ["greet"]);
///
/// let server = Server::builder("sqlite://asynq.db").registry(some); // instead of all that are linked
/// ```
#[derive(Debug, Clone, Default)]
pub struct Registry(Arc<Jobs>);

#[derive(Debug, Clone, Default)]
struct Jobs {
    by_name: BTreeMap<&'static str, JobDescriptor>,
    /// The name of the job of each alias.
    by_alias: BTreeMap<&'static str, &'static str>,
}

impl Registry {
    /// Returns every job that is linked into this program; the order of linking means nothing.
    ///
    /// # Errors
    ///
    /// Two jobs of one name.
    pub fn linked() -> Result<Self, RegistryError> {
        Self::from_descriptors(inventory::iter::<JobDescriptor>().copied())
    }

    /// Returns just these jobs, such as `Registry::only::<(send_email, resize)>()`, or just one. A tuple has at most 16 jobs;
    /// [`ServerBuilder::register`](crate::server::ServerBuilder::register) adds more.
    ///
    /// # Errors
    ///
    /// Two jobs of one name, or one without a body.
    pub fn only<S: JobSet>() -> Result<Self, RegistryError> {
        Self::from_descriptors(S::descriptors())
    }

    /// Returns the jobs of these descriptors; a job that is there twice counts once.
    ///
    /// # Errors
    ///
    /// Two jobs of one name, or one without a body.
    pub fn from_descriptors(jobs: impl IntoIterator<Item = JobDescriptor>) -> Result<Self, RegistryError> {
        let mut map = BTreeMap::<&'static str, JobDescriptor>::new();
        for job in jobs {
            if job.is_contract {
                return Err(RegistryError::Contract { job: Box::new(job) });
            }
            match map.entry(job.name) {
                Entry::Vacant(free) => {
                    free.insert(job);
                }
                // The first descriptor stays, because that of a linked job has its file and line.
                Entry::Occupied(known) if known.get().is_same_job(&job) => {}
                Entry::Occupied(known) => return Err(RegistryError::duplicate(job.name, known.get(), &job)),
            }
        }
        let mut by_alias = BTreeMap::new();
        for job in map.values() {
            for alias in job.aliases.iter().copied().filter(|alias| *alias != job.name) {
                let before = by_alias.insert(alias, job.name).and_then(|name| map.get(name));
                if let Some(other) = map.get(alias).or(before).filter(|other| other.name != job.name) {
                    return Err(RegistryError::duplicate(alias, other, job));
                }
            }
        }
        Ok(Self(Arc::new(Jobs { by_name: map, by_alias })))
    }

    /// Returns whether the program has a job of this type, which a server of some jobs may not run.
    pub(crate) fn is_linked(r#type: &str) -> bool {
        inventory::iter::<JobDescriptor>().any(|job| job.name == r#type || job.aliases.contains(&r#type))
    }

    /// Returns the job that has this name, or has it as an alias.
    pub fn get(&self, name: &str) -> Option<&JobDescriptor> {
        let Jobs { by_name, by_alias } = &*self.0;
        by_name.get(name).or_else(|| by_name.get(by_alias.get(name)?))
    }

    /// Returns every job, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = &JobDescriptor> {
        self.0.by_name.values()
    }

    /// Returns the number of jobs.
    pub fn len(&self) -> usize {
        self.0.by_name.len()
    }

    /// Returns whether there are no jobs.
    pub fn is_empty(&self) -> bool {
        self.0.by_name.is_empty()
    }

    /// Checks that there are jobs. A program whose jobs are not linked would be served, and found safe to deploy, with none.
    ///
    /// # Errors
    ///
    /// There are none.
    pub(crate) fn check_not_empty(&self) -> Result<(), RegistryError> {
        if self.is_empty() { Err(RegistryError::NoJobs) } else { Ok(()) }
    }

    /// Checks that postcard can carry the arguments of every job that is encoded with it.
    ///
    /// # Errors
    ///
    /// The first job, by name, with an argument that postcard cannot carry.
    pub(crate) fn check_codecs(&self) -> Result<(), RegistryError> {
        for job in self.iter().filter(|job| job.codec == Codec::Postcard) {
            if let Some(type_name) = &job.fingerprint().self_describing {
                return Err(RegistryError::NotForPostcard { job: Box::new(*job), type_name: type_name.clone() });
            }
        }
        Ok(())
    }

    /// Checks that no upgrade of a job takes arguments of today's shape: it is not asked for tasks of that shape.
    ///
    /// # Errors
    ///
    /// The first job, by name, with such an upgrade.
    pub(crate) fn check_upgrades(&self) -> Result<(), RegistryError> {
        let idle = self.iter().find(|job| job.has_idle_upgrade());
        idle.map_or(Ok(()), |job| Err(RegistryError::IdleUpgrade { job: Box::new(*job) }))
    }

    /// Checks that every state that a job requires is there, or is `supplied` by the server itself.
    ///
    /// # Errors
    ///
    /// The first job, by name, that lacks a state.
    pub(crate) fn check_states(&self, states: &StateMap, supplied: StateKey) -> Result<(), RegistryError> {
        let is_there = |state: StateKey| state == supplied || states.contains(state);
        for job in self.iter() {
            if let Some(&state) = job.requires.iter().find(|&&state| !is_there(state)) {
                return Err(RegistryError::MissingState { job: Box::new(*job), state });
            }
        }
        Ok(())
    }
}

/// One job, or a tuple of jobs.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a job nor a tuple of jobs",
    label = "expected a tuple of jobs",
    note = "write jobs, such as `(send_email, resize)`, at most 16 in a tuple; `ServerBuilder::register` adds more"
)]
pub trait JobSet {
    /// Returns the descriptors of the jobs.
    fn descriptors() -> Vec<JobDescriptor>;
}

#[diagnostic::do_not_recommend]
impl<J: Job> JobSet for J {
    fn descriptors() -> Vec<JobDescriptor> {
        <(J,)>::descriptors()
    }
}

macro_rules! job_set {
    ($($job:ident)*) => {
        #[diagnostic::do_not_recommend]
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
job_set!(A B C D E F G H I);
job_set!(A B C D E F G H I K);
job_set!(A B C D E F G H I K L);
job_set!(A B C D E F G H I K L M);
job_set!(A B C D E F G H I K L M N);
job_set!(A B C D E F G H I K L M N O);
job_set!(A B C D E F G H I K L M N O P);
job_set!(A B C D E F G H I K L M N O P Q);

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::job::{JobContext, JobResult, State, Upgrade};

    macro_rules! job {
        ($type:ident $name:literal) => {
            #[derive(Serialize, Deserialize)]
            struct $type {}

            impl Job for $type {
                const NAME: &'static str = $name;
                const REQUIRES: &'static [StateKey] = &[StateKey::of::<Mailer>()];
                type Output = JobResult;
                async fn run(self, _: &JobContext) -> JobResult {
                    Ok(())
                }
            }
        };
    }

    struct Mailer;
    job!(Welcome "mail:welcome");
    job!(AlsoWelcome "mail:welcome");
    job!(Bye "mail:bye");

    #[test]
    fn the_error_of_two_jobs_of_one_name_has_both_places_in_any_order() {
        let (first, second) =
            (JobDescriptor::of::<Welcome>("src/a.rs", 3), JobDescriptor::of::<AlsoWelcome>("src/b.rs", 7));
        for jobs in [[first, second], [second, first]] {
            let error = Registry::from_descriptors(jobs).unwrap_err().to_string();
            assert_eq!(
                error,
                "two jobs are named `mail:welcome`: src/a.rs:3 and src/b.rs:7; \
                 rename one of the functions or give it `name = \"…\"`"
            );
        }
        let twins = [JobDescriptor::of::<Welcome>("src/a.rs", 3), JobDescriptor::of::<AlsoWelcome>("src/a.rs", 3)];
        for jobs in [twins, [twins[1], twins[0]]] {
            let error = Registry::from_descriptors(jobs).unwrap_err().to_string();
            let path = module_path!();
            let expected = format!("{path}::AlsoWelcome and {path}::Welcome, both written at src/a.rs:3; rename");
            assert!(error.contains(&expected), "{error}");
        }
        let error = Registry::only::<(Welcome, AlsoWelcome)>().unwrap_err().to_string();
        assert!(error.contains("tests::AlsoWelcome and ") && !error.contains(":0"), "{error}");
    }

    #[test]
    fn the_error_of_a_file_in_library_and_program_says_which_module_to_leave_out() {
        // Two types with one path, as of two crates with one name.
        let in_the_library = {
            job!(Welcome "mail:welcome");
            JobDescriptor::of::<Welcome>("src/jobs.rs", 3)
        };
        let in_the_program = {
            job!(Welcome "mail:welcome");
            JobDescriptor::of::<Welcome>("src/jobs.rs", 3)
        };
        let error = Registry::from_descriptors([in_the_library, in_the_program]).unwrap_err().to_string();
        assert!(error.contains("both written at src/jobs.rs:3; the file is a module of the library"), "{error}");
        assert!(!error.contains("rename"), "{error}");
    }

    #[test]
    fn one_job_twice_counts_once_and_keeps_its_place() {
        let linked = JobDescriptor::of::<Welcome>("src/a.rs", 3);
        let by_hand = JobDescriptor::of::<Welcome>("a::Welcome", 0);
        let registry = Registry::from_descriptors([linked, by_hand]).unwrap();
        assert_eq!(registry.len(), 1);
        assert_eq!(registry.get("mail:welcome").map(|job| job.line), Some(3));
    }

    #[test]
    fn a_job_answers_to_its_aliases_and_counts_once() {
        let mut renamed = JobDescriptor::of::<Welcome>("src/a.rs", 3);
        renamed.aliases = &["mail:hello", "mail:bye"];
        let registry = Registry::from_descriptors([renamed]).unwrap();
        assert_eq!((registry.len(), registry.iter().count()), (1, 1));
        for name in ["mail:hello", "mail:bye", "mail:welcome"] {
            assert_eq!(registry.get(name).map(|job| job.name), Some("mail:welcome"), "{name}");
        }
        assert!(registry.get("mail").is_none());
        let bye = JobDescriptor::of::<Bye>("src/b.rs", 7);
        for jobs in [[renamed, bye], [bye, renamed]] {
            let error = Registry::from_descriptors(jobs).unwrap_err().to_string();
            let expected = "two jobs are named `mail:bye`: src/a.rs:3 and src/b.rs:7; the name is an `alias`";
            assert!(error.starts_with(expected), "{error}");
        }
        let mut also = bye;
        (also.name, also.aliases) = ("mail:other", &["mail:hello"]);
        let error = Registry::from_descriptors([renamed, also]).unwrap_err().to_string();
        assert!(
            error.starts_with("two jobs are named `mail:hello`") && error.contains("leave the alias out"),
            "{error}"
        );
    }

    #[test]
    fn the_error_of_a_missing_state_names_the_job_its_place_and_the_type() {
        let registry = Registry::from_descriptors([JobDescriptor::of::<Bye>("src/mail.rs", 12)]).unwrap();
        let mut states = StateMap::default();
        states.insert("of another type");
        let supplied = StateKey::of::<String>();
        let error = registry.check_states(&states, supplied).unwrap_err().to_string();
        assert!(error.starts_with("job `mail:bye` (src/mail.rs:12) needs State<"), "{error}");
        assert!(error.contains("Mailer>"), "{error}");
        assert!(registry.check_states(&states, StateKey::of::<Mailer>()).is_ok());
        states.insert(Mailer);
        assert!(registry.check_states(&states, supplied).is_ok());
        assert!(states.get::<Mailer>().is_some_and(|state: State<Mailer>| matches!(*state, Mailer)));
    }

    #[derive(Serialize, Deserialize)]
    struct Page {
        number: u32,
        #[serde(flatten)]
        rest: std::collections::HashMap<String, String>,
    }

    #[derive(Serialize, Deserialize)]
    struct Show {
        page: Page,
    }

    impl Job for Show {
        const NAME: &'static str = "show";
        type Output = JobResult;
        async fn run(self, _: &JobContext) -> JobResult {
            Ok(())
        }
    }

    #[test]
    fn a_type_that_postcard_cannot_carry_is_named_before_the_first_task() {
        let registry = Registry::from_descriptors([JobDescriptor::of::<Show>("src/page.rs", 7)]).unwrap();
        let error = registry.check_codecs().unwrap_err().to_string();
        assert!(error.starts_with("job `show` (src/page.rs:7) has an argument of `Page`"), "{error}");
        assert!(error.contains("`codec = \"json\"`"), "{error}");
        assert!(Registry::only::<(Welcome, Bye)>().unwrap().check_codecs().is_ok());
    }

    #[derive(Serialize, Deserialize)]
    struct Charge<const IS_JSON: bool> {
        cents: u64,
    }

    impl<const IS_JSON: bool> Job for Charge<IS_JSON> {
        const NAME: &'static str = "charge";
        const CODEC: Codec = if IS_JSON { Codec::Json } else { Codec::Postcard };
        const UPGRADES: &'static [Upgrade<Self>] = &[
            Upgrade::new(|earlier| {
                earlier.through(|(euros, _): (u32, String)| Charge { cents: u64::from(euros) * 100 })
            }),
            Upgrade::new(|earlier| earlier.through(|old: Self| Charge { cents: old.cents * 100 })),
        ];
        type Output = JobResult;
        async fn run(self, _: &JobContext) -> JobResult {
            Ok(())
        }
    }

    #[test]
    fn an_upgrade_from_arguments_of_todays_shape_is_refused_because_it_is_not_asked() {
        for charge in [JobDescriptor::of::<Charge<false>>, JobDescriptor::of::<Charge<true>>] {
            let registry = Registry::from_descriptors([charge("src/charge.rs", 7)]).unwrap();
            let error = registry.check_upgrades().unwrap_err().to_string();
            assert!(
                error.starts_with("an upgrade of job `charge` (src/charge.rs:7) takes arguments of today's shape"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_set_names_its_jobs() {
        let registry = Registry::only::<(Welcome, Bye)>().unwrap();
        assert_eq!(registry.iter().map(|job| job.name).collect::<Vec<_>>(), ["mail:bye", "mail:welcome"]);
        assert!(Registry::only::<()>().unwrap().is_empty());
    }
}
