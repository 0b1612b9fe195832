//! Starts the runtime of a program.

use std::{
    io::{self, Write as _},
    panic::{set_hook, take_hook},
    process::exit,
};

use tokio::runtime::{Builder, Runtime};

use crate::panics::shown;

/// Builds the runtime of a program, with I/O and time.
///
/// Where the system refuses a thread or a file, tokio panics, and this panic waits for ever for the threads that did start. So a
/// panic ends the process here, with one line and exit code 1.
///
/// # Errors
///
/// The system refuses what the runtime needs.
#[doc(hidden)]
pub fn start_runtime(builder: &mut Builder) -> io::Result<Runtime> {
    let hook = take_hook();
    set_hook(Box::new(|panic| {
        let _ = writeln!(io::stderr(), "error: the runtime cannot start: {}", shown(panic.payload()));
        exit(1);
    }));
    let built = builder.enable_all().build();
    set_hook(hook);
    built
}
