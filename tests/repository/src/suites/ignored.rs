//! An ignored test has a reason.

use syn::{Expr, Lit, Meta};

use super::{Function, functions, functions_of};
use crate::tree::none;

/// The functions that are ignored without a reason.
fn unexplained(functions: &[Function]) -> Vec<String> {
    let is_explained = |meta: &Meta| {
        let Meta::NameValue(pair) = meta else { return false };
        matches!(&pair.value, Expr::Lit(literal) if matches!(&literal.lit, Lit::Str(text) if !text.value().is_empty()))
    };
    let mut broken = Vec::new();
    for function in functions {
        let mut ignores = function.attributes.iter().filter(|attribute| attribute.path().is_ident("ignore"));
        if ignores.any(|attribute| !is_explained(&attribute.meta)) {
            broken.push(format!("{}: {} is ignored without a reason", function.path, function.name));
        }
    }
    broken
}

#[test]
fn an_ignored_test_says_why() {
    none(unexplained(&functions(&["ignore"])), "`#[ignore = \"…\"]` names the reason");
}

#[test]
fn an_ignored_test_without_a_reason_is_caught() {
    let text =
        "#[test]\n#[ignore]\nfn a() {}\n#[test]\n#[ignore = \"\"]\nfn b() {}\n#[test]\n#[ignore = \"slow\"]\nfn c() {}";
    let expected = ["x.rs: a is ignored without a reason", "x.rs: b is ignored without a reason"];
    assert_eq!(unexplained(&functions_of("x.rs", text)), expected);
}
