//! The product's source as words: without comments, doc texts and everything that only `cfg(test)` compiles.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{
    Attribute, Field, ImplItem, Item, Meta, Stmt, TraitItem, Variant, parse::Parser as _, punctuated::Punctuated,
    visit_mut::VisitMut,
};

use crate::{
    exports::{Exports, exports, resolve, step},
    tree::{read, rust_files},
};

/// A file of a crate's `src` folder.
#[derive(Debug)]
pub(crate) struct Source {
    /// The path from the root of the repository.
    pub(crate) path: String,
    /// Identifiers, literals and signs in their order.
    pub(crate) tokens: Vec<Token>,
    /// Every path that begins with `crate`, `self`, `super` or the crate's name: from the root of the crate, through re-exports to
    /// the module that holds the item.
    pub(crate) imports: Vec<Import>,
}

/// A word of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) line: usize,
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    Literal,
    Sign,
}

/// A path within the crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) line: usize,
    pub(crate) path: Vec<String>,
}

/// The files below `folder`, which is in the `src` folder of a crate; files of unit tests are left out.
pub(crate) fn sources(folder: &str) -> Vec<Arc<Source>> {
    static READ: LazyLock<Mutex<BTreeMap<String, Vec<Arc<Source>>>>> = LazyLock::new(Mutex::default);
    let end = folder.find("/src").expect("a folder of a crate's source") + "/src".len();
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let all = read.entry(folder[..end].to_owned()).or_insert_with(|| read_crate(&folder[..end]));
    let found: Vec<_> = all.iter().filter(|source| source.path.starts_with(folder)).cloned().collect();
    assert!(!found.is_empty(), "{folder} has no source, so a rule about it holds nothing");
    found
}

fn read_crate(src: &str) -> Vec<Arc<Source>> {
    let (mut sources, mut tests, mut exports) = (Vec::new(), BTreeSet::new(), Exports::new());
    for path in rust_files(src) {
        let module = module_of(path.strip_prefix(src).unwrap().trim_matches('/'));
        let (source, test_modules, exported) = parse(&path, &module, &read(&path));
        tests.extend(test_modules);
        exports.extend(exported);
        sources.push((module, source));
    }
    let is_test = |module: &[String]| (1..=module.len()).any(|end| tests.contains(&module[..end]));
    sources.retain(|(module, _)| !is_test(module));
    // A function may be exported beside a module of the same name; a longer path goes through the module.
    sources.iter().for_each(|(module, _)| _ = exports.remove(module));
    for import in sources.iter_mut().flat_map(|(_, source)| &mut source.imports) {
        import.path = resolve(&import.path, &exports);
    }
    sources.into_iter().map(|(_, source)| Arc::new(source)).collect()
}

/// The module that a file of `src` holds.
pub(crate) fn module_of(inside: &str) -> Vec<String> {
    let mut parts: Vec<String> = inside.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        parts.pop();
    }
    parts
}

/// The source of a file that holds `module`, with its paths as they are written; the modules in files of their own that it
/// declares for tests alone; and the names that it exports.
fn parse(path: &str, module: &[String], text: &str) -> (Source, Vec<Vec<String>>, Exports) {
    let mut file =
        syn::parse_file(text).unwrap_or_else(|error| panic!("{path}:{}: {error}", error.span().start().line));
    let mut tests = WithoutTests { module: module.to_owned(), removed: Vec::new() };
    tests.visit_file_mut(&mut file);
    let own = path.split('/').next().unwrap().replace('-', "_");
    let exports = exports(&file.items, module, &own);
    let mut words = Words { own, tokens: Vec::new(), imports: Vec::new() };
    words.read(file.into_token_stream(), &mut module.to_owned(), true);
    (Source { path: path.to_owned(), tokens: words.tokens, imports: words.imports }, tests.removed, exports)
}

/// Removes everything from the tree that is below a `cfg(test)`.
struct WithoutTests {
    module: Vec<String>,
    removed: Vec<Vec<String>>,
}

impl VisitMut for WithoutTests {
    fn visit_file_mut(&mut self, file: &mut syn::File) {
        self.clear(&mut file.items);
        syn::visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        self.module.push(module.ident.to_string());
        if let Some((_, items)) = &mut module.content {
            self.clear(items);
        }
        syn::visit_mut::visit_item_mod_mut(self, module);
        self.module.pop();
    }

    fn visit_item_impl_mut(&mut self, item: &mut syn::ItemImpl) {
        item.items.retain(|item| !is_for_tests(attributes_of_impl(item)));
        syn::visit_mut::visit_item_impl_mut(self, item);
    }

    fn visit_item_trait_mut(&mut self, item: &mut syn::ItemTrait) {
        item.items.retain(|item| !is_for_tests(attributes_of_trait(item)));
        syn::visit_mut::visit_item_trait_mut(self, item);
    }

    fn visit_fields_named_mut(&mut self, fields: &mut syn::FieldsNamed) {
        fields.named = without_tests(&fields.named, |field: &Field| &field.attrs);
        syn::visit_mut::visit_fields_named_mut(self, fields);
    }

    fn visit_item_enum_mut(&mut self, item: &mut syn::ItemEnum) {
        item.variants = without_tests(&item.variants, |variant: &Variant| &variant.attrs);
        syn::visit_mut::visit_item_enum_mut(self, item);
    }

    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.retain(|statement| match statement {
            Stmt::Local(local) => !is_for_tests(&local.attrs),
            Stmt::Item(item) => !is_for_tests(attributes(item)),
            Stmt::Macro(call) => !is_for_tests(&call.attrs),
            Stmt::Expr(..) => true,
        });
        syn::visit_mut::visit_block_mut(self, block);
    }
}

impl WithoutTests {
    fn clear(&mut self, items: &mut Vec<Item>) {
        items.retain(|item| {
            let removed = is_for_tests(attributes(item));
            if let (true, Item::Mod(module)) = (removed, item) {
                let mut path = self.module.clone();
                path.push(module.ident.to_string());
                self.removed.push(path);
            }
            !removed
        });
    }
}

fn without_tests<T: Clone>(
    all: &Punctuated<T, syn::Token![,]>,
    attributes: impl Fn(&T) -> &Vec<Attribute>,
) -> Punctuated<T, syn::Token![,]> {
    all.iter().filter(|one| !is_for_tests(attributes(one))).cloned().collect()
}

/// Whether these attributes limit their item to builds of tests.
pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    fn needs_test(meta: &Meta) -> bool {
        let parts = || {
            let list = meta.require_list().ok()?;
            Punctuated::<Meta, syn::Token![,]>::parse_terminated.parse2(list.tokens.clone()).ok()
        };
        let all = |parts: Punctuated<Meta, _>| !parts.is_empty() && parts.iter().all(needs_test);
        let any = |parts: Punctuated<Meta, _>| parts.iter().any(needs_test);
        meta.path().is_ident("test")
            || (meta.path().is_ident("all") && parts().is_some_and(any))
            || (meta.path().is_ident("any") && parts().is_some_and(all))
    }
    let mut conditions = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    conditions.any(|attribute| attribute.parse_args::<Meta>().is_ok_and(|condition| needs_test(&condition)))
}

/// The attributes above an item.
pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn attributes_of_impl(item: &ImplItem) -> &[Attribute] {
    match item {
        ImplItem::Const(item) => &item.attrs,
        ImplItem::Fn(item) => &item.attrs,
        ImplItem::Type(item) => &item.attrs,
        _ => &[],
    }
}

fn attributes_of_trait(item: &TraitItem) -> &[Attribute] {
    match item {
        TraitItem::Const(item) => &item.attrs,
        TraitItem::Fn(item) => &item.attrs,
        TraitItem::Type(item) => &item.attrs,
        _ => &[],
    }
}

/// Reads tokens, those inside macros included.
struct Words {
    /// The name of the crate.
    own: String,
    tokens: Vec<Token>,
    imports: Vec<Import>,
}

impl Words {
    /// Reads `stream`, which is in `module`. The members of a path's group are not paths of their own.
    fn read(&mut self, stream: TokenStream, module: &mut Vec<String>, has_paths: bool) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let mut at = 0;
        while at < trees.len() {
            if is_sign(trees.get(at), '#') {
                let inner = usize::from(is_sign(trees.get(at + 1), '!'));
                if is_doc(trees.get(at + 1 + inner)) {
                    at += 2 + inner;
                    continue;
                }
            }
            let before = |back: usize| at.checked_sub(back).and_then(|before| trees.get(before));
            if let TokenTree::Ident(first) = &trees[at]
                && has_paths
                && ["crate", "self", "super", self.own.as_str()].contains(&first.to_string().as_str())
                && !(is_sign(before(1), ':') && is_sign(before(2), ':'))
            {
                let mut base = module.clone();
                self.follow(&trees[at..], &mut base);
            }
            self.note(&trees[at]);
            if let TokenTree::Group(group) = &trees[at] {
                let of_path = is_sign(before(1), ':') && is_sign(before(2), ':');
                let name = match (before(2), before(1)) {
                    (Some(TokenTree::Ident(keyword)), Some(TokenTree::Ident(name))) if keyword == "mod" => Some(name),
                    _ => None,
                };
                module.extend(name.map(ToString::to_string));
                self.read(group.stream(), module, has_paths && !of_path);
                module.truncate(module.len() - usize::from(name.is_some()));
            }
            at += 1;
        }
    }

    fn note(&mut self, tree: &TokenTree) {
        let line = tree.span().start().line;
        let (kind, text) = match tree {
            TokenTree::Ident(ident) => (Kind::Word, ident.to_string()),
            TokenTree::Literal(literal) => (Kind::Literal, literal.to_string()),
            TokenTree::Punct(sign) => (Kind::Sign, sign.as_char().to_string()),
            TokenTree::Group(_) => return,
        };
        self.tokens.push(Token { line, kind, text });
    }

    /// Records every path at the beginning of `trees`, and for a group the paths of its members.
    fn follow(&mut self, trees: &[TokenTree], base: &mut Vec<String>) {
        let (mut at, mut line) = (0, 0);
        while let Some(TokenTree::Ident(segment)) = trees.get(at) {
            line = segment.span().start().line;
            step(base, &segment.to_string(), &self.own);
            if !(is_sign(trees.get(at + 1), ':') && is_sign(trees.get(at + 2), ':')) {
                break;
            }
            at += 3;
        }
        if let Some(TokenTree::Group(group)) = trees.get(at)
            && at > 0
        {
            let members: Vec<TokenTree> = group.stream().into_iter().collect();
            for member in members.split(|tree| is_sign(Some(tree), ',')).filter(|member| !member.is_empty()) {
                self.follow(member, &mut base.clone());
            }
        } else {
            self.imports.push(Import { line, path: base.clone() });
        }
    }
}

fn is_sign(tree: Option<&TokenTree>, sign: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

/// Whether this is `[doc = "…"]`.
fn is_doc(tree: Option<&TokenTree>) -> bool {
    let Some(TokenTree::Group(group)) = tree else { return false };
    group.delimiter() == Delimiter::Bracket && group.stream().to_string().starts_with("doc =")
}

/// The words of a text: identifiers and numbers.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The places where files of `folder` use one of `forbidden` as a word, in code or in a text.
pub(crate) fn mentions(folder: &str, forbidden: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources(folder) {
        for token in &source.tokens {
            if let Some(word) = words(&token.text).find(|word| forbidden.contains(word)) {
                found.push(format!("{}:{} mentions `{word}`", source.path, token.line));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(module: &str, text: &str) -> (Source, Vec<Vec<String>>, Exports) {
        parse("x.rs", &module_of(module), text)
    }

    fn imports(module: &str, text: &str) -> Vec<String> {
        of(module, text).0.imports.into_iter().map(|import| import.path.join("::")).collect()
    }

    #[test]
    fn a_crate_is_read_once_and_its_sources_are_shared() {
        let (whole, folder) = (sources("asynq-grammar/src"), sources("asynq-grammar/src/cron"));
        for source in &folder {
            assert!(whole.iter().any(|other| Arc::ptr_eq(source, other)), "{} was copied", source.path);
        }
    }

    #[test]
    fn a_path_is_followed_to_the_module_that_it_reaches() {
        let text = "use crate::{task::{TaskId, self}, clock::Clock};\nuse super::super::{job::Job, fmt};\n\
                    mod inside { use super::super::other; }\nfn f(x: super::a::A) -> self::own::Own { vec![super::deep::VALUE, other::super::not()] }";
        let expected = [
            "task::TaskId",
            "task",
            "clock::Clock",
            "job::Job",
            "fmt",
            "broker::other",
            "broker::a::A",
            "broker::redis::own::Own",
            "broker::deep::VALUE",
        ];
        assert_eq!(imports("broker/redis/mod.rs", text), expected);
    }

    #[test]
    fn only_test_code_is_left_out() {
        let text = "#[cfg(test)]\nmod plans;\nfn kept() { let a = b; #[cfg(test)] let c = d; }\n\
                    #[cfg(all(test, unix))]\nmod tests { fn e() {} }\n#[cfg(any(test, unix))]\nfn f() {}\n\
                    impl G { #[cfg(test)] fn h() {} fn i() {} }\n/// Not j.\n#[cfg(not(test))]\nstruct K { #[cfg(test)] l: M, n: O }";
        let (source, modules, _) = of("broker/mod.rs", text);
        let words: Vec<&str> = source
            .tokens
            .iter()
            .filter(|token| token.kind == Kind::Word && token.text.len() == 1)
            .map(|token| token.text.as_str())
            .collect();
        assert_eq!(words, ["a", "b", "f", "G", "i", "K", "n", "O"]);
        assert_eq!(modules, [["broker", "plans"], ["broker", "tests"]]);
    }
}
