//! The names that modules give to items of other modules, so that a path can be followed to the module that holds its item.

use std::collections::BTreeMap;

use syn::{Item, UseTree};

/// Each such name with its module, and the path of the item. The names that a glob brings are not among them.
pub(crate) type Exports = BTreeMap<Vec<String>, Vec<String>>;

/// Follows re-exports to the module that holds the item.
pub(crate) fn resolve(path: &[String], exports: &Exports) -> Vec<String> {
    let exported = (1..=path.len()).find_map(|end| Some((exports.get(&path[..end])?, &path[end..])));
    exported.map_or_else(|| path.to_owned(), |(target, rest)| resolve(&[target, rest].concat(), exports))
}

/// Extends `path` by a segment; `own` is the name of the crate.
pub(crate) fn step(path: &mut Vec<String>, segment: &str, own: &str) {
    match segment {
        "crate" => path.clear(),
        "super" => _ = path.pop(),
        "self" => {}
        name if name == own => path.clear(),
        name => path.push(name.to_owned()),
    }
}

/// Returns the exports among the items of `module`, those of modules inside it included.
pub(crate) fn exports(items: &[Item], module: &[String], own: &str) -> Exports {
    let mut found = Exports::new();
    for item in items {
        match item {
            Item::Use(item) => used(&item.tree, module.to_owned(), module, own, &mut found),
            Item::Mod(item) => {
                let items = item.content.as_ref().map_or(&[][..], |(_, items)| items);
                found.extend(exports(items, &with(module, &item.ident.to_string()), own));
            }
            // An exported macro is an item of the crate's root.
            Item::Macro(item) if item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export")) => {
                let name = item.ident.as_ref().expect("the macro has a name").to_string();
                // The path of one of the root itself would lead back to itself, without end.
                if !module.is_empty() {
                    found.insert(vec![name.clone()], with(module, &name));
                }
            }
            _ => {}
        }
    }
    found
}

/// Notes the names that a part of a `use` gives to items; `path` leads to the part.
fn used(tree: &UseTree, mut path: Vec<String>, module: &[String], own: &str, found: &mut Exports) {
    let name = match tree {
        UseTree::Path(part) => {
            step(&mut path, &part.ident.to_string(), own);
            return used(&part.tree, path, module, own, found);
        }
        UseTree::Group(group) => {
            return group.items.iter().for_each(|tree| used(tree, path.clone(), module, own, found));
        }
        UseTree::Name(item) => {
            step(&mut path, &item.ident.to_string(), own);
            path.last().cloned()
        }
        UseTree::Rename(item) => {
            step(&mut path, &item.ident.to_string(), own);
            Some(item.rename.to_string())
        }
        UseTree::Glob(_) => None,
    };
    let name = name.map(|name| with(module, &name)).filter(|name| *name != path);
    found.extend(name.map(|name| (name, path)));
}

fn with(module: &[String], name: &str) -> Vec<String> {
    [module, &[name.to_owned()]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn a_name_is_followed_to_the_module_that_holds_it() {
        let mut found = Exports::new();
        for (module, text) in [
            ("", "pub use self::job::{Codec as Kind, Job, codec::{self as codecs, decode}};"),
            ("", "pub mod prelude { pub use asynq_x::Job; }"),
            ("job", "mod codec; use self::codec::*; pub(crate) use codec::{Codec, decode}; pub trait Job {}"),
            ("job::codec", "#[macro_export] macro_rules! json { () => {} }"),
            ("", "#[macro_export] macro_rules! log { () => {} }"),
        ] {
            found.extend(exports(&syn::parse_file(text).unwrap().items, &path(module), "asynq_x"));
        }
        for (name, expected) in [
            ("Kind::Json", "job::codec::Codec::Json"),
            ("prelude::Job", "job::Job"),
            ("decode", "job::codec::decode"),
            ("codecs::Codec", "job::codec::Codec"),
            ("json", "job::codec::json"),
            ("log", "log"),
            ("job::Other", "job::Other"),
        ] {
            assert_eq!(resolve(&path(name), &found), path(expected), "{name}");
        }
    }
}
