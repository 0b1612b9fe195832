//! No test outside a module `timing` asserts that a step was fast enough.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{
    BinOp, Expr, ExprMethodCall, Local, Macro, Pat, Token,
    parse::Parser as _,
    punctuated::Punctuated,
    spanned::Spanned as _,
    visit::{self, Visit},
};

use super::{Function, functions, functions_of};
use crate::tree::{none, read, rust_files};

/// Functions that measure real time.
const CLOCKS: [&str; 2] = ["elapsed", "duration_since"];
/// Names of a measurement that another function returns.
const MEASURED: [&str; 2] = ["took", "elapsed"];
/// Constructors of a span: a literal span is a time limit where the function measures, or calls a function beside it that does.
const SPANS: [&str; 5] = ["from_nanos", "from_micros", "from_millis", "from_secs", "from_secs_f64"];
/// The limit that ends a hang.
const LIMIT: &str = "PATIENCE";

fn mentions(tokens: &impl quote::ToTokens, any: impl Fn(&str) -> bool) -> bool {
    fn within(stream: TokenStream, any: &dyn Fn(&str) -> bool) -> bool {
        stream.into_iter().any(|tree| match tree {
            TokenTree::Ident(ident) => any(&ident.to_string()),
            TokenTree::Group(group) => within(group.stream(), any),
            _ => false,
        })
    }
    within(tokens.to_token_stream(), &any)
}

/// The bounds that a function asserts.
struct Bounds {
    /// The names of measured durations.
    measured: Vec<String>,
    /// Whether every literal span is a limit.
    measures: bool,
    found: Vec<(usize, String)>,
}

impl Bounds {
    fn is_measured(&self, expression: &Expr) -> bool {
        mentions(expression, |word| CLOCKS.contains(&word) || self.measured.iter().any(|name| name == word))
    }

    /// Records every upper bound in the claim of an `assert!`.
    fn claims(&mut self, claim: &Expr) {
        match claim {
            Expr::Binary(binary) => match binary.op {
                BinOp::And(_) | BinOp::Or(_) => {
                    self.claims(&binary.left);
                    self.claims(&binary.right);
                }
                BinOp::Lt(_) | BinOp::Le(_) => self.bound(&binary.left, &binary.right),
                BinOp::Gt(_) | BinOp::Ge(_) => self.bound(&binary.right, &binary.left),
                _ => {}
            },
            Expr::MethodCall(call) if call.method == "contains" => {
                let range = if let Expr::Paren(inner) = &*call.receiver { &*inner.expr } else { &*call.receiver };
                if let (Expr::Range(range), Some(value)) = (range, call.args.first())
                    && let Some(end) = &range.end
                {
                    self.bound(value, end);
                }
            }
            Expr::Paren(inner) => self.claims(&inner.expr),
            _ => {}
        }
    }

    fn bound(&mut self, value: &Expr, limit: &Expr) {
        let is_span = self.measures && mentions(limit, |word| SPANS.contains(&word));
        if (self.is_measured(value) || is_span) && !mentions(limit, |word| word == LIMIT) {
            self.note(value, limit);
        }
    }

    fn note(&mut self, value: &Expr, limit: &Expr) {
        let text = |part: &Expr| part.to_token_stream().to_string();
        self.found.push((value.span().start().line, format!("{} < {}", text(value), text(limit))));
    }
}

impl<'ast> Visit<'ast> for Bounds {
    fn visit_local(&mut self, local: &'ast Local) {
        if let (Pat::Ident(name), Some(value)) = (&local.pat, &local.init)
            && self.is_measured(&value.expr)
        {
            self.measured.push(name.ident.to_string());
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        if (call.method == "unwrap" || call.method == "expect")
            && let Expr::Await(waiting) = &*call.receiver
            && let Expr::Call(timeout) = &*waiting.base
            && let (Expr::Path(function), Some(limit), Some(value)) =
                (&*timeout.func, timeout.args.first(), timeout.args.get(1))
            && function.path.segments.last().is_some_and(|last| last.ident == "timeout")
            && mentions(limit, |word| SPANS.contains(&word))
        {
            self.note(value, limit);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        let name = call.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        let Ok(arguments) = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(call.tokens.clone()) else { return };
        if let (true, Some(claim)) = (name.contains("assert"), arguments.first()) {
            self.claims(claim);
        }
        for argument in &arguments {
            self.visit_expr(argument);
        }
    }
}

/// The places where functions outside modules `timing` assert a time limit.
fn bounds(functions: &[Function]) -> Vec<String> {
    let by_itself = |function: &Function| mentions(&function.body, |word| CLOCKS.contains(&word) || word == "Instant");
    let measuring = functions.iter().filter(|function| !function.is_method && by_itself(function));
    let measuring: BTreeSet<(&str, &str)> = measuring.map(|function| (&*function.path, &*function.name)).collect();
    let mut broken = Vec::new();
    for function in functions.iter().filter(|function| !function.timing) {
        // tokio's own clock is paused in this test.
        let attributes = function.attributes.iter().any(|attribute| mentions(attribute, |word| word == "start_paused"));
        if attributes || mentions(&function.body, |word| word == "start_paused") {
            continue;
        }
        let calls_one = mentions(&function.body, |word| measuring.contains(&(&function.path, word)));
        let measures = by_itself(function) || calls_one;
        let mut bounds = Bounds { measured: MEASURED.map(str::to_owned).into(), measures, found: Vec::new() };
        bounds.visit_block(&function.body);
        let places = bounds.found.into_iter();
        broken.extend(places.map(|(line, bound)| format!("{}:{line}: {}: {bound}", function.path, function.name)));
    }
    broken
}

#[test]
fn only_modules_timing_hold_the_machine_to_a_limit() {
    let ours = functions(&["elapsed", "duration_since", "Instant", "took", "timeout("])
        .into_iter()
        .filter(|function| !function.path.starts_with("bench/"));
    let rule = "a time limit depends on the machine: assert the cause, or move the test into a module `timing`";
    none(bounds(&ours.collect::<Vec<_>>()), rule);
}

#[test]
fn patience_has_one_value() {
    let defines = |path: &String| {
        let visible =
            |line: &str| line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ").to_owned();
        read(path).lines().any(|line| visible(line).starts_with("const PATIENCE:"))
    };
    let is_test = |path: &String| path.starts_with("tests/") || path.contains("/tests/");
    let others = rust_files("").into_iter().filter(|path| is_test(path) && path != "tests/support/src/wait.rs");
    let others = others.filter(defines);
    none(others.collect(), "a limit called PATIENCE is the one of asynq-test-support, whatever the machine");
}

#[test]
fn an_upper_bound_is_caught_and_a_lower_one_is_not() {
    let text = "fn a() { assert!(began.elapsed() < limit, \"{x}\"); }\n\
                fn b() { let d = began.elapsed(); assert!(one && 5 >= d.as_secs()); }\n\
                fn c() { assert!((low..high).contains(&took)); }\n\
                fn d() { loop { assert!((began.elapsed() <= limit)); } timeout(Duration::from_secs(5), call).await.unwrap(); }\n\
                fn e() { assert!(began.elapsed() >= limit); assert!(limit < took); assert!((low..).contains(&took)); }\n\
                fn f() { assert!(began.elapsed() < PATIENCE); assert!(count < 5); timeout(PATIENCE, call).await.unwrap(); \
                assert!(timeout(Duration::from_secs(5), call).await.is_err()); }\n\
                fn i() { assert!(j(3) < Duration::from_millis(20)); } fn j() { Instant::now() }\n\
                fn k() { assert!(pause < Duration::from_millis(20)); }\n\
                #[tokio::test(start_paused = true)]\nasync fn g() { assert!(began.elapsed() < limit); }\n\
                mod timing { fn h() { assert!(began.elapsed() < limit); } }";
    let expected = [
        "x.rs:1: a: began . elapsed () < limit",
        "x.rs:2: b: d . as_secs () < 5",
        "x.rs:3: c: & took < high",
        "x.rs:4: d: began . elapsed () < limit",
        "x.rs:4: d: call < Duration :: from_secs (5)",
        "x.rs:7: i: j (3) < Duration :: from_millis (20)",
    ];
    assert_eq!(bounds(&functions_of("x.rs", text)), expected);
    assert!(bounds(&functions_of("tests/server/timing.rs", "fn a() { assert!(b.elapsed() < c); }")).is_empty());
}
