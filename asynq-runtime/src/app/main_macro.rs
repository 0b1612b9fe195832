//! `main!`: a whole program from its jobs.

use std::process::ExitCode;

use super::{App, cli, program::Program, set_up::SetUpFuture};

/// Writes `fn main`: a worker for the jobs of this program, and the commands beside it.
///
/// ```no_run
/// # mod plain {
/// use asynq_runtime::prelude::*;
///
/// /// Sends one e-mail.
/// #[job(queue = "critical")]
/// async fn send_email(to: String) -> JobResult {
///     println!("to {to}");
///     Ok(())
/// }
///
/// asynq_runtime::main!();
/// # }
/// # fn main() {}
/// ```
///
/// In the parentheses may stand, in this order:
///
/// - `jobs: [my_jobs, billing::jobs],` names crates or modules that hold jobs. A crate that is only listed in
///   `Cargo.toml` is not linked, and its jobs are not there.
/// - `services: [asynq_dashboard],` names crates that bring a service and its flags.
/// - the set-up: an `async fn setup(app: App) -> Result<App, BoxError>`, or with any other error, run before the worker
///   starts; the commands `jobs`, `enqueue` and `stats` do not run it.
///
/// The program needs no dependency on tokio: `main!` starts a multi-threaded runtime.
#[macro_export]
macro_rules! main {
    (@link [$($link:path,)*] jobs: [$($more:path),* $(,)?] $(, $($rest:tt)*)?) => {
        $crate::main!(@link [$($link,)* $($more,)*] $($($rest)*)?);
    };
    (@link [$($link:path,)*] services: [$($more:path),* $(,)?] $(, $($rest:tt)*)?) => {
        $crate::main!(@link [$($link,)* $($more,)*] $($($rest)*)?);
    };
    (@link [$($link:path,)*]) => {
        $(use $link as _;)*

        fn main() -> ::std::process::ExitCode {
            $crate::app::main_without($crate::main!(@program))
        }
    };
    (@link [$($link:path,)*] $setup:expr $(,)?) => {
        $(use $link as _;)*

        fn main() -> ::std::process::ExitCode {
            $crate::app::main_with($crate::main!(@program), $setup)
        }
    };
    (@link $($wrong:tt)*) => {
        ::std::compile_error!(
            "`main!` takes, in this order and each or none: `jobs: [crates with jobs],` `services: [crates with services],` and the \
             set-up function: `main!(jobs: [mails], services: [asynq_dashboard], setup)`"
        );

        fn main() {}
    };
    (@program) => {
        $crate::app::Program {
            name: match ::std::option_env!("CARGO_BIN_NAME") {
                ::std::option::Option::Some(name) => name,
                ::std::option::Option::None => match ::std::option_env!("CARGO_PKG_NAME") {
                    ::std::option::Option::Some(name) => name,
                    ::std::option::Option::None => "worker",
                },
            },
            version: match ::std::option_env!("CARGO_PKG_VERSION") {
                ::std::option::Option::Some(version) => version,
                ::std::option::Option::None => "",
            },
        }
    };
    ($($all:tt)*) => {
        $crate::main!(@link [] $($all)*);
    };
}

/// Runs the body of a `main` without set-up.
#[doc(hidden)]
pub fn main_without(program: Program) -> ExitCode {
    cli::run(program, None)
}

/// Runs the body of a `main` with a set-up.
#[doc(hidden)]
// The compiler shows the bounds to the user of a wrong set-up: in fewer lines where they are beside the name.
pub fn main_with<R: SetUpFuture + Send + 'static, F>(program: Program, setup: F) -> ExitCode
where
    F: FnOnce(App) -> R + Send + 'static,
{
    cli::run(program, Some(Box::new(move |app| Box::pin(async move { setup(app).await.map_err(Into::into) }))))
}
