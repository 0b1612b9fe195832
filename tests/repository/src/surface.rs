//! The public surface of the published crates, as text that is committed: a review shows every change of it.
//!
//! `BLESS=1 cargo test -p asynq-repository-tests surface` writes the texts anew; read the difference. syn reads them from the
//! source, so that they are the same on every compiler. Items that a macro of a crate makes are listed as the macro has them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{Attribute, Fields, ImplItem, Item, Meta, TraitItem, Type, UseTree, Visibility};

use crate::{
    source::{attributes, is_for_tests},
    tree::{read, root, rust_files},
};

const CRATES: [&str; 7] =
    ["asynq-grammar", "asynq-macros", "asynq-runtime", "asynq-cron", "asynq-dashboard", "asynq-jobs", "asynq-cli"];

#[test]
fn the_public_surface_is_the_committed_one() {
    for name in CRATES {
        let actual = Surface::of(name).lines.into_iter().map(|line| line + "\n").collect::<String>();
        let path = format!("tests/repository/surface/{name}.txt");
        if std::env::var_os("BLESS").is_some() {
            fs::write(root().join(&path), actual).unwrap();
            continue;
        }
        let known = read(&path);
        let (before, now): (BTreeSet<_>, BTreeSet<_>) = (known.lines().collect(), actual.lines().collect());
        let gone = before.difference(&now).map(|line| format!("- {line}"));
        let new = now.difference(&before).map(|line| format!("+ {line}"));
        let difference: Vec<_> = gone.chain(new).collect();
        assert!(
            known == actual,
            "{path} differs; BLESS=1 writes it anew, and CHANGELOG.md says what changed:\n{}",
            difference.join("\n")
        );
    }
}

#[test]
fn the_surface_has_every_item_that_is_not_marked_as_hidden_and_what_a_caller_may_rely_on() {
    let lines = Surface::of("asynq-runtime").lines;
    let line = |start: &str| {
        lines.iter().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("`{start}` is not listed")).as_str()
    };
    // The doc comments of both have the word "hidden".
    line("fn asynq_runtime::inspector::ArgumentReader::read(");
    let secret = line("struct asynq_runtime::Secret<T>");
    assert!(secret.contains("#[derive(Clone, Copy"), "{secret}");
    let new = line("fn asynq_runtime::Secret::new(");
    assert!(new.ends_with(" const"), "{new}");
    assert!(!lines.iter().any(|line| line.contains("ServerBuilder::flags(")), "it is marked as hidden");
}

type Module = Vec<String>;

/// A crate's modules, and the items of them that can be reached from outside.
struct Surface {
    modules: BTreeMap<Module, Vec<Item>>,
    /// The place where each item is listed: its first path, and `use` for the others.
    listed: BTreeMap<(Module, String), String>,
    lines: BTreeSet<String>,
}

impl Surface {
    fn of(name: &str) -> Self {
        let src = format!("{name}/src");
        let mut surface = Self { modules: BTreeMap::new(), listed: BTreeMap::new(), lines: BTreeSet::new() };
        for path in rust_files(&src) {
            let module = crate::source::module_of(path.strip_prefix(&src).unwrap().trim_matches('/'));
            let items = syn::parse_file(&read(&path)).unwrap().items;
            surface.add(module, items);
        }
        surface.walk(&Vec::new(), &name.replace('-', "_"));
        surface.macros();
        surface
    }

    fn add(&mut self, module: Module, mut items: Vec<Item>) {
        items.retain(|item| !is_for_tests(attributes(item)));
        for item in &items {
            if let Item::Mod(inner) = item
                && let Some((_, content)) = &inner.content
            {
                self.add([&module[..], &[inner.ident.to_string()]].concat(), content.clone());
            }
        }
        self.modules.entry(module).or_default().extend(items);
    }

    /// Lists the public items of `module` under the path `shown`.
    fn walk(&mut self, module: &Module, shown: &str) {
        let items = self.modules.get(module).cloned().unwrap_or_default();
        // The shortest path of an item is its first one.
        let (modules, others): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| matches!(item, Item::Mod(_)));
        for item in others.into_iter().chain(modules) {
            if is_hidden(attributes(&item)) {
                continue;
            }
            match &item {
                Item::Use(import) if is_public(&import.vis) => {
                    for (path, name) in leaves(&import.tree, Vec::new()) {
                        self.reexport(module, &path, &name, shown);
                    }
                }
                Item::Mod(inner) if is_public(&inner.vis) => {
                    let child = [&module[..], &[inner.ident.to_string()]].concat();
                    self.line(&inner.attrs, format!("mod {shown}::{}", inner.ident));
                    self.walk(&child, &format!("{shown}::{}", inner.ident));
                }
                item => {
                    if let Some((vis, name)) = named(item)
                        && is_public(vis)
                    {
                        self.show(module, item, &format!("{shown}::{name}"));
                    }
                }
            }
        }
    }

    /// Lists the target of `pub use path` as `name`.
    fn reexport(&mut self, module: &Module, path: &[String], name: &str, shown: &str) {
        let Some((home, item)) = self.resolve(module, path) else {
            self.lines.insert(format!("use {shown}::{name} = {}", path.join("::")));
            return;
        };
        let shown = format!("{shown}::{name}");
        match &item {
            Item::Mod(inner) => self.walk(&[&home[..], &[inner.ident.to_string()]].concat(), &shown),
            item => self.show(&home, item, &shown),
        }
    }

    /// The item that a path leads to, and its module; `None` for an item of another crate.
    fn resolve(&self, from: &Module, path: &[String]) -> Option<(Module, Item)> {
        let (mut module, mut rest) = (from.clone(), path);
        match path.first()?.as_str() {
            "crate" => (module, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                module.pop();
                rest = &path[1..];
            }
            first => self.find(&module, first).map(drop)?,
        }
        while let [name, more @ ..] = rest {
            let item = self.find(&module, name)?;
            match (&item, more) {
                (Item::Use(import), _) => {
                    let (target, _) = leaves(&import.tree, Vec::new()).into_iter().find(|(_, leaf)| leaf == name)?;
                    // `pub use rusqlite` names another crate.
                    let is_another_crate = target.len() == 1;
                    return if is_another_crate { None } else { self.resolve(&module, &[&target[..], more].concat()) };
                }
                (_, []) => return Some((module, item)),
                _ => module.push(name.clone()),
            }
            rest = more;
        }
        None
    }

    fn find(&self, module: &Module, name: &str) -> Option<Item> {
        let is_it = |item: &&Item| match item {
            Item::Use(import) => leaves(&import.tree, Vec::new()).iter().any(|(_, leaf)| leaf == name),
            Item::Mod(inner) => inner.ident == name,
            item => named(item).is_some_and(|(_, known)| known == name),
        };
        let items = self.modules.get(module)?;
        // A macro may be exported by the name of a module.
        items
            .iter()
            .filter(|item| !matches!(item, Item::Use(_)))
            .find(is_it)
            .or_else(|| items.iter().find(is_it))
            .cloned()
    }

    fn show(&mut self, home: &Module, item: &Item, shown: &str) {
        let attrs = attributes(item);
        let Some((_, name)) = named(item).filter(|_| !is_hidden(attrs)) else { return };
        if let Some(first) = self.listed.get(&(home.clone(), name.clone())) {
            self.lines.insert(format!("use {shown} = {first}"));
            return;
        }
        self.listed.insert((home.clone(), name), shown.to_owned());
        match item {
            Item::Fn(function) => self.line(attrs, format!("fn {shown}{}", signature(&function.sig))),
            Item::Const(constant) => self.line(attrs, format!("const {shown}: {}", text(&constant.ty))),
            Item::Static(constant) => self.line(attrs, format!("static {shown}: {}", text(&constant.ty))),
            Item::Type(alias) => {
                self.line(attrs, format!("type {shown}{} = {}", text(&alias.generics), text(&alias.ty)));
            }
            Item::Struct(data) => {
                self.line(attrs, format!("struct {shown}{}", text(&data.generics)));
                self.fields(&data.fields, shown, false);
                self.methods(home, &data.ident.to_string(), shown);
            }
            Item::Enum(data) => {
                self.line(attrs, format!("enum {shown}{}", text(&data.generics)));
                for variant in &data.variants {
                    let name = format!("{shown}::{}", variant.ident);
                    self.line(&variant.attrs, format!("variant {name}"));
                    self.fields(&variant.fields, &name, true);
                }
                self.methods(home, &data.ident.to_string(), shown);
            }
            Item::Trait(data) => {
                let supertraits = text(&data.supertraits);
                let colon = if supertraits.is_empty() { "" } else { ": " };
                self.line(attrs, format!("trait {shown}{}{colon}{supertraits}", text(&data.generics)));
                for item in &data.items {
                    self.trait_item(item, shown);
                }
            }
            _ => {}
        }
    }

    fn trait_item(&mut self, item: &TraitItem, shown: &str) {
        match item {
            TraitItem::Fn(f) if !is_hidden(&f.attrs) => {
                let kind = if f.default.is_some() { "provided" } else { "required" };
                self.line(&f.attrs, format!("{kind} fn {shown}::{}{}", f.sig.ident, signature(&f.sig)));
            }
            TraitItem::Const(c) if !is_hidden(&c.attrs) => {
                self.line(&c.attrs, format!("const {shown}::{}: {}", c.ident, text(&c.ty)));
            }
            TraitItem::Type(t) => self.line(&t.attrs, format!("type {shown}::{}: {}", t.ident, text(&t.bounds))),
            _ => {}
        }
    }

    fn fields(&mut self, fields: &Fields, shown: &str, all: bool) {
        for (position, field) in fields.iter().enumerate() {
            if (all || is_public(&field.vis)) && !is_hidden(&field.attrs) {
                let name = field.ident.as_ref().map_or_else(|| position.to_string(), ToString::to_string);
                self.line(&field.attrs, format!("field {shown}::{name}: {}", text(&field.ty)));
            }
        }
    }

    /// Lists the implementations of the type `name`, which is declared in `home`, from the whole crate.
    fn methods(&mut self, home: &Module, name: &str, shown: &str) {
        let is_declared = |items: &Vec<Item>| {
            items.iter().any(|item| {
                matches!(item, Item::Struct(_) | Item::Enum(_)) && named(item).is_some_and(|(_, known)| known == name)
            })
        };
        let is_alone = self.modules.values().filter(|items| is_declared(items)).count() == 1;
        let mut lines = Vec::new();
        for (module, items) in &self.modules {
            for item in items {
                let Item::Impl(block) = item else { continue };
                if !is_named(&block.self_ty, name) || !(is_alone || module.starts_with(home)) {
                    continue;
                }
                if let Some((path, _)) = &block.trait_ {
                    let generics = text(&block.generics);
                    lines.push((block.attrs.clone(), format!("impl{generics} {} for {shown}", text(path))));
                    continue;
                }
                for item in &block.items {
                    match item {
                        ImplItem::Fn(f) if is_public(&f.vis) && !is_hidden(&f.attrs) => {
                            lines.push((f.attrs.clone(), format!("fn {shown}::{}{}", f.sig.ident, signature(&f.sig))));
                        }
                        ImplItem::Const(c) if is_public(&c.vis) && !is_hidden(&c.attrs) => {
                            lines.push((c.attrs.clone(), format!("const {shown}::{}: {}", c.ident, text(&c.ty))));
                        }
                        _ => {}
                    }
                }
            }
        }
        for (attrs, line) in lines {
            self.line(&attrs, line);
        }
    }

    /// Lists exported macros, and the public functions that macros of the crate make.
    fn macros(&mut self) {
        let items: Vec<_> = self.modules.values().flatten().cloned().collect();
        for item in items {
            let Item::Macro(made) = item else { continue };
            if is_hidden(&made.attrs) {
                continue;
            }
            let Some(name) = made.ident.filter(|_| made.mac.path.is_ident("macro_rules")) else { continue };
            if made.attrs.iter().any(|attr| attr.path().is_ident("macro_export")) {
                self.lines.insert(format!("macro {name}!"));
            }
            for function in public_functions(made.mac.tokens) {
                self.lines.insert(format!("fn made by {name}!: {function}"));
            }
        }
    }

    fn line(&mut self, attrs: &[Attribute], line: String) {
        let marks: String = attrs
            .iter()
            .filter(|attr| ["cfg", "derive", "non_exhaustive"].iter().any(|mark| attr.path().is_ident(mark)))
            .map(|attr| format!("#[{}] ", text(&attr.meta)))
            .collect();
        self.lines.insert(format!("{line}{}{}", if marks.is_empty() { "" } else { "    " }, marks.trim_end()));
    }
}

fn public_functions(tokens: TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    let trees: Vec<_> = tokens.into_iter().collect();
    for (at, tree) in trees.iter().enumerate() {
        if let TokenTree::Group(group) = tree {
            found.extend(public_functions(group.stream()));
        }
        let is = |at: usize, word: &str| trees.get(at).is_some_and(|tree| tree.to_string() == word);
        let is_restricted = matches!(trees.get(at + 1), Some(TokenTree::Group(_)));
        if is(at, "pub") && !is_restricted && (is(at + 1, "fn") || is(at + 2, "fn")) {
            let is_end = |tree: &&TokenTree| !matches!(tree, TokenTree::Group(g) if g.delimiter() == proc_macro2::Delimiter::Brace);
            found.push(trees[at..].iter().take_while(is_end).cloned().collect::<TokenStream>().to_string());
        }
    }
    found
}

fn leaves(tree: &UseTree, mut path: Vec<String>) -> Vec<(Vec<String>, String)> {
    match tree {
        UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            leaves(&inner.tree, path)
        }
        UseTree::Name(name) if name.ident == "self" => {
            let last = path.last().cloned().unwrap_or_default();
            vec![(path, last)]
        }
        UseTree::Name(name) => {
            path.push(name.ident.to_string());
            vec![(path, name.ident.to_string())]
        }
        UseTree::Rename(rename) => {
            path.push(rename.ident.to_string());
            vec![(path, rename.rename.to_string())]
        }
        UseTree::Glob(_) => vec![(path, "*".to_owned())],
        UseTree::Group(group) => group.items.iter().flat_map(|tree| leaves(tree, path.clone())).collect(),
    }
}

fn named(item: &Item) -> Option<(&Visibility, String)> {
    let (vis, ident) = match item {
        Item::Const(item) => (&item.vis, &item.ident),
        Item::Enum(item) => (&item.vis, &item.ident),
        Item::Fn(item) => (&item.vis, &item.sig.ident),
        Item::Static(item) => (&item.vis, &item.ident),
        Item::Struct(item) => (&item.vis, &item.ident),
        Item::Trait(item) => (&item.vis, &item.ident),
        Item::Type(item) => (&item.vis, &item.ident),
        _ => return None,
    };
    Some((vis, ident.to_string()))
}

fn is_named(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == name))
}

fn is_public(vis: &Visibility) -> bool {
    matches!(vis, Visibility::Public(_))
}

fn is_hidden(attrs: &[Attribute]) -> bool {
    // The text of a doc comment is `#[doc = ".."]`, and may contain the word.
    attrs.iter().any(|attr| match &attr.meta {
        Meta::List(list) if list.path.is_ident("doc") => {
            list.tokens.clone().into_iter().any(|tree| tree.to_string() == "hidden")
        }
        _ => false,
    })
}

fn signature(sig: &syn::Signature) -> String {
    let (generics, inputs, output) = (&sig.generics, &sig.inputs, &sig.output);
    let clause = &sig.generics.where_clause;
    let is_async = sig.asyncness.map_or("", |_| " async");
    let is_const = sig.constness.map_or("", |_| " const");
    format!("{}{is_async}{is_const}", text(&quote!(#generics (#inputs) #output #clause)))
}

/// Tokens with single spaces, and no space where a reader expects none.
fn text(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    let tight = [
        (" :: ", "::"),
        (":: ", "::"),
        (" ,", ","),
        (" < ", "<"),
        ("< ", "<"),
        (" <", "<"),
        (" >", ">"),
        ("& ", "&"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" :", ":"),
        (" ;", ";"),
        (" [", "["),
        ("[ ", "["),
        (" ]", "]"),
    ];
    for (loose, close) in tight {
        text = text.replace(loose, close);
    }
    text
}
