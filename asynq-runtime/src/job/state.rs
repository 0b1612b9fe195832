//! Shared states: values that a server is given once and every job may ask for.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    fmt,
    ops::Deref,
    sync::Arc,
};

/// A value that all jobs of a server share, as a job's parameter.
///
/// Cloning a `State` clones a pointer. A server that was not given a `T` refuses to start; see [`StateKey`]. A
/// `State<Client>` need not be given: it is a client of the server's own broker, unless the program gives another.
///
/// ```
/// # use asynq_runtime::prelude::*;
/// struct Mailer;
///
/// impl Mailer {
///     fn send(&self, to: &str) {}
/// }
///
/// #[job]
/// async fn send_email(mailer: State<Mailer>, to: String) {
///     mailer.send(&to);
/// }
///
/// async fn setup(app: App) -> Result<App, BoxError> {
///     Ok(app.state(Mailer))
/// }
/// ```
pub struct State<T: ?Sized>(Arc<T>);

/// [`State`] by another name, for files that import axum's.
pub type Shared<T> = State<T>;

impl<T> State<T> {
    /// Returns a state that holds `value`, for calling a job's function directly in a test.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T: ?Sized> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("State").field(&&*self.0).finish()
    }
}

/// Names a state that a job requires, so that the requirement is known before the first task is taken.
#[derive(Clone, Copy)]
pub struct StateKey {
    id: fn() -> TypeId,
    name: fn() -> &'static str,
}

impl StateKey {
    /// Returns the key of `State<T>`. The other bounds of a state are checked where it is given and where it is taken.
    pub const fn of<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>, name: type_name::<T> }
    }

    /// Returns the number of keys in all lists, which is the `N` of [`all`](Self::all).
    pub const fn count(lists: &[&[Self]]) -> usize {
        let (mut n, mut at) = (0, 0);
        while at < lists.len() {
            n += lists[at].len();
            at += 1;
        }
        n
    }

    /// Returns the `N` keys ([`count`](Self::count)) of all lists in one; surplus places name no state, `()`. A job written by hand
    /// that takes several [`FromContext`](super::FromContext) types requires the states of each:
    ///
    /// ```
    /// use asynq_runtime::{FromContext, State, job::StateKey};
    ///
    /// const EACH: &[&[StateKey]] = &[<State<u8> as FromContext>::REQUIRES, <State<String> as FromContext>::REQUIRES];
    /// const REQUIRES: &[StateKey] = &StateKey::all::<{ StateKey::count(EACH) }>(EACH);
    ///
    /// assert_eq!(REQUIRES, [StateKey::of::<u8>(), StateKey::of::<String>()]);
    /// ```
    pub const fn all<const N: usize>(lists: &[&[Self]]) -> [Self; N] {
        let mut all = [Self::of::<()>(); N];
        let (mut n, mut at) = (0, 0);
        while at < lists.len() {
            let mut item = 0;
            while item < lists[at].len() && n < N {
                all[n] = lists[at][item];
                (n, item) = (n + 1, item + 1);
            }
            at += 1;
        }
        all
    }

    /// Returns the type's name, for people.
    pub fn name(self) -> &'static str {
        (self.name)()
    }
}

impl PartialEq for StateKey {
    fn eq(&self, other: &Self) -> bool {
        (self.id)() == (other.id)()
    }
}

impl Eq for StateKey {}

impl fmt::Debug for StateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StateKey").field(&self.name()).finish()
    }
}

/// The states that a server was given, one per type.
#[derive(Clone, Default)]
pub struct StateMap(HashMap<TypeId, (Arc<dyn Any + Send + Sync>, &'static str)>);

impl StateMap {
    /// Adds a state; a second one of the same type replaces the first.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), (Arc::new(value), type_name::<T>()));
    }

    /// Returns the state of type `T`.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<State<T>> {
        let (value, _) = self.0.get(&TypeId::of::<T>())?;
        Arc::clone(value).downcast().ok().map(State)
    }

    /// Returns the state of type `T`, which is made now if it is missing.
    pub(crate) fn get_or_default<T: Default + Send + Sync + 'static>(&mut self) -> State<T> {
        self.get::<T>().unwrap_or_else(|| {
            let value = Arc::new(T::default());
            self.0.insert(TypeId::of::<T>(), (value.clone(), type_name::<T>()));
            State(value)
        })
    }

    /// Returns whether the state that `key` names is there.
    pub fn contains(&self, key: StateKey) -> bool {
        self.0.contains_key(&(key.id)())
    }
}

impl fmt::Debug for StateMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.values().map(|(_, name)| name)).finish()
    }
}
