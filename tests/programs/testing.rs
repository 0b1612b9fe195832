//! Program 7: tests of the user's own jobs. It continues program 1 in the same file.

mod as_written {
    #![allow(dead_code, unused_imports)] // the worker's `main` and the example's repeated imports
    include!("as_written/program_1.rs");
    include!("as_written/program_7.rs");
}
