//! The program `asynq`.

use std::process::ExitCode;

fn main() -> ExitCode {
    asynq_cli::main()
}
