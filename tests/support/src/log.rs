//! Captures the log of a test, from the test's own thread and from the services of servers that it starts.

use std::{
    fmt::{self, Write as _},
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use tracing::{
    Dispatch, Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
    subscriber::DefaultGuard,
};

/// Keeps the lines of `INFO` and above that this thread and the services of its servers log, until this guard is dropped.
/// Meant for tests whose runtime has one thread.
#[derive(Debug)]
pub struct Log {
    lines: Lines,
    _guard: DefaultGuard,
}

#[derive(Clone)]
struct Lines {
    kept: Arc<Mutex<Vec<String>>>,
    on_line: Arc<dyn Fn() + Send + Sync>,
}

/// A second subscriber, which lives as long as the process. With only one subscriber, tracing caches at each callsite whether
/// the thread that comes there first has a subscriber, and a thread of another test has none.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Lines::calling(|| ())));

impl Log {
    /// Begins to keep the lines of this thread.
    pub fn keep() -> Self {
        Self::calling(|| ())
    }

    /// Begins to keep the lines of this thread, and calls `on_line` whenever one is logged. `on_line` may panic, as the subscriber of a
    /// program may.
    pub fn calling(on_line: impl Fn() + Send + Sync + 'static) -> Self {
        LazyLock::force(&SECOND);
        let lines = Lines::calling(on_line);
        Self { _guard: tracing::subscriber::set_default(lines.clone()), lines }
    }

    /// The kept lines that contain `part`, in their order; the fields follow the text, as ` name=value`.
    pub fn with(&self, part: &str) -> Vec<String> {
        let lines = self.lines.kept.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().filter(|line| line.contains(part)).cloned().collect()
    }
}

/// The message, and after it each field as ` name=value`.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            let _ = write!(self.fields, " {}={value:?}", field.name());
        }
    }
}

impl Lines {
    fn calling(on_line: impl Fn() + Send + Sync + 'static) -> Self {
        Self { kept: Arc::default(), on_line: Arc::new(on_line) }
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lines").field(&self.kept).finish()
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(line.message + &line.fields);
        (self.on_line)();
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
