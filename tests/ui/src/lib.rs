//! Programs that must compile as they are, under lints that are stricter than most programs'.
//!
//! The modules belong to one library, so that one program links all of them. In a test, `missing_docs` would be
//! silent.

#![forbid(unsafe_code)]
#![deny(
    warnings,
    clippy::needless_pass_by_value,
    missing_docs,
    missing_debug_implementations,
    missing_copy_implementations,
    elided_lifetimes_in_paths,
    explicit_outlives_requirements,
    future_incompatible,
    let_underscore_drop,
    macro_use_extern_crate,
    meta_variable_misuse,
    non_ascii_idents,
    non_local_definitions,
    redundant_imports,
    redundant_lifetimes,
    rust_2018_idioms,
    rust_2021_compatibility,
    rust_2024_compatibility,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unit_bindings,
    unnameable_types,
    unreachable_pub,
    unused,
    unused_crate_dependencies,
    unused_extern_crates,
    unused_import_braces,
    unused_lifetimes,
    unused_macro_rules,
    unused_qualifications,
    unused_results,
    variant_size_differences
)]
// The dependencies are also those of the test and of its cases.
#![allow(unused_crate_dependencies)]

pub mod no_prelude_at_all;
pub mod private_types;
pub mod public_library;
pub mod strict_lints;
