//! A test may skip itself by `skip!` alone, which prints the reason where the harness cannot swallow it.

use quote::ToTokens as _;
use syn::{
    Expr, Stmt,
    visit::{self, Visit},
};

use super::{Function, functions, functions_of};
use crate::tree::{none, read, rust_files};

/// The head of a line that a test formerly printed for a skip.
const OLD: &str = concat!("ga", "p:");

/// Functions that record a skip themselves and tell the test to end.
const NOTED: [&str; 2] = ["lacks", "go"];

/// Finds each `return` of a test without a skip or an assertion before it.
struct Returns {
    lines: Vec<usize>,
}

impl<'ast> Visit<'ast> for Returns {
    fn visit_expr_return(&mut self, leave: &'ast syn::ExprReturn) {
        if leave.expr.is_none() {
            self.lines.push(leave.return_token.span.start().line);
        }
    }

    fn visit_expr_if(&mut self, choice: &'ast syn::ExprIf) {
        if !calls(&choice.cond, &NOTED) {
            visit::visit_expr_if(self, choice);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !local.init.as_ref().is_some_and(|init| calls(&init.expr, &NOTED)) {
            visit::visit_local(self, local);
        }
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        let asserts = |statement: &Stmt| {
            let Stmt::Macro(call) = statement else { return false };
            call.mac.path.segments.last().is_some_and(|last| last.ident.to_string().starts_with("assert"))
        };
        match &block.stmts[..] {
            [before @ .., Stmt::Expr(Expr::Return(_), _)] if before.iter().any(asserts) => {
                before.iter().for_each(|statement| self.visit_stmt(statement));
            }
            _ => visit::visit_block(self, block),
        }
    }

    // A `return` in these does not leave the test.
    fn visit_expr_closure(&mut self, _: &'ast syn::ExprClosure) {}
    fn visit_expr_async(&mut self, _: &'ast syn::ExprAsync) {}
    fn visit_item(&mut self, _: &'ast syn::Item) {}
}

/// Whether the expression calls one of these functions or methods.
fn calls(expression: &Expr, names: &[&str]) -> bool {
    let text = format!(" {}", expression.to_token_stream());
    names.iter().any(|name| text.contains(&format!(" {name} (")))
}

/// The places where tests end early without a skip.
fn unseen(functions: &[Function]) -> Vec<String> {
    let mut broken = Vec::new();
    for function in functions.iter().filter(|function| function.is_test) {
        let mut returns = Returns { lines: Vec::new() };
        returns.visit_block(&function.body);
        let places = returns.lines.iter().map(|line| format!("{}:{line}: {} ends early", function.path, function.name));
        broken.extend(places);
    }
    broken
}

#[test]
fn the_one_way_to_skip_is_seen() {
    let mut broken = unseen(&functions(&["return"]));
    for path in rust_files("") {
        let lines = read(&path);
        let lines = lines.lines().enumerate().filter(|(_, line)| line.contains(OLD));
        broken.extend(lines.map(|(number, _)| format!("{path}:{} prints a skip of its own", number + 1)));
    }
    none(broken, "a test is left out by `skip!(\"reason\")`, or after `lacks(…)`");
}

#[test]
fn a_silent_skip_is_caught() {
    let text = "#[test]\nfn a() {\nif b() { println!(\"skipped\"); return; }\n}\n#[test]\nfn c() {\nlet Ok(d) = e() else { return };\n}\n\
                #[test]\nfn f() { if t.lacks(Need::G) { return; } let Some(h) = go(&t) else { return };\n\
                if i() { assert!(j); return; }\nif k() { skip!(\"no k\"); } spawn(|| { return; }); }\nfn l() { return; }\n\
                on_both_brokers! { async fn m(stage: &Stage) {\nif n() { return; }\n} async fn o(desk) { p(); } }";
    let expected = ["x.rs:3: a ends early", "x.rs:7: c ends early", "x.rs:15: m ends early"];
    assert_eq!(unseen(&functions_of("x.rs", text)), expected);
}
