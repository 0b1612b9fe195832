//! The rules for tests, which keep their results independent of the machine, and every skip visible.

mod bounds;
mod ignored;
mod skips;

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{
    Attribute, Block, Ident,
    parse::Parser as _,
    visit::{self, Visit},
};

use crate::tree::{read, rust_files};

/// A function with its body.
#[allow(missing_debug_implementations)] // syn has none without another feature
pub(crate) struct Function {
    /// The path from the root of the repository.
    pub(crate) path: String,
    pub(crate) name: String,
    pub(crate) attributes: Vec<Attribute>,
    body: Block,
    /// Whether the harness runs this function: `#[test]`, `#[tokio::test]` and their kind, or `on_both_brokers!`.
    pub(crate) is_test: bool,
    /// Whether the function belongs to a type.
    is_method: bool,
    /// Whether the function is in a module `timing`, which runs at the end with a processor to itself.
    timing: bool,
}

/// Every function, tests and all others, in the files whose text has one of `words`. Programs that must not compile, in folders
/// `fail`, are left out.
fn functions(words: &[&str]) -> Vec<Function> {
    let files = rust_files("").into_iter().filter(|path| !path.contains("/fail/"));
    let texts = files.map(|path| (read(&path), path)).filter(|(text, _)| words.iter().any(|word| text.contains(word)));
    texts.flat_map(|(text, path)| functions_of(&path, &text)).collect()
}

/// The functions of a file, including those in calls of macros.
fn functions_of(path: &str, text: &str) -> Vec<Function> {
    let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}:{}: {error}", error.span().start().line));
    let timing = path.trim_end_matches(".rs").split('/').any(|part| part == "timing");
    let mut functions = Functions { path, timing, found: Vec::new() };
    functions.visit_file(&file);
    functions.found
}

/// The functions of files that are asked for more than once.
#[derive(Default)]
pub(crate) struct Parsed(RefCell<BTreeMap<String, Rc<[Function]>>>);

impl Parsed {
    /// Returns the functions of a file. Only the first call parses it.
    pub(crate) fn functions_of(&self, path: &str, text: &str) -> Rc<[Function]> {
        let mut files = self.0.borrow_mut();
        Rc::clone(files.entry(path.to_owned()).or_insert_with(|| functions_of(path, text).into()))
    }
}

struct Functions<'a> {
    path: &'a str,
    timing: bool,
    found: Vec<Function>,
}

impl Functions<'_> {
    fn note(&mut self, name: &Ident, attributes: &[Attribute], body: &Block) -> &mut Function {
        let is_test = |one: &Attribute| one.path().segments.last().is_some_and(|last| last.ident == "test");
        self.found.push(Function {
            path: self.path.to_owned(),
            name: name.to_string(),
            attributes: attributes.to_owned(),
            body: body.clone(),
            is_test: attributes.iter().any(is_test),
            is_method: false,
            timing: self.timing,
        });
        self.found.last_mut().unwrap()
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let outside = self.timing;
        self.timing |= module.ident == "timing";
        visit::visit_item_mod(self, module);
        self.timing = outside;
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.note(&function.sig.ident, &function.attrs, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.note(&function.sig.ident, &function.attrs, &function.block).is_method = true;
    }

    /// In a macro's call only attributes, name and body of a function are read: an argument may have no type there.
    fn visit_item_macro(&mut self, call: &'ast syn::ItemMacro) {
        let makes_tests = call.mac.path.segments.last().is_some_and(|last| last.ident == "on_both_brokers");
        let (mut attributes, mut name) = (TokenStream::new(), None);
        let mut trees = call.mac.tokens.clone().into_iter().peekable();
        while let Some(tree) = trees.next() {
            match (tree, trees.peek()) {
                (TokenTree::Punct(sign), Some(TokenTree::Group(group))) if sign.as_char() == '#' => {
                    attributes.extend([TokenTree::Punct(sign), TokenTree::Group(group.clone())]);
                }
                (TokenTree::Ident(keyword), Some(TokenTree::Ident(ident))) if keyword == "fn" => {
                    name = Some(ident.clone());
                }
                (TokenTree::Group(group), _) if group.delimiter() == Delimiter::Brace => {
                    let attributes = Attribute::parse_outer.parse2(std::mem::take(&mut attributes)).unwrap_or_default();
                    let body = syn::parse2::<Block>(TokenTree::Group(group).into());
                    if let (Some(name), Ok(body)) = (name.take(), body) {
                        self.note(&name, &attributes, &body).is_test |= makes_tests;
                    }
                }
                _ => {}
            }
        }
    }
}
