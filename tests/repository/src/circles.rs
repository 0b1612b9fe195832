//! Modules beside each other import in one direction: no two of them, by whatever way, import each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    source::{Source, sources},
    tree::none,
};

/// Crates whose folders are looked at, all of them. The items of a folder's own `mod.rs` or `lib.rs` are left out: they hold the
/// parts together.
const CRATES: [&str; 6] = [
    "asynq-cli/src",
    "asynq-cron/src",
    "asynq-dashboard/src",
    "asynq-grammar/src",
    "asynq-macros/src",
    "asynq-runtime/src",
];

/// Every folder below `src` that holds modules, and `src` itself.
fn folders(src: &str) -> BTreeSet<String> {
    let ancestors = |path: String| {
        let folders = path.match_indices('/').map(|(end, _)| path[..end].to_owned()).collect::<Vec<_>>();
        folders.into_iter().filter(|folder| folder.len() >= src.len())
    };
    sources(src).into_iter().flat_map(|source| ancestors(source.path.clone())).collect()
}

/// Which module of `folder` imports which other, and where it does first. An item belongs to the module that holds it, by whatever
/// re-export it is named.
fn imports(folder: &str, sources: &[Arc<Source>]) -> BTreeMap<String, BTreeMap<String, String>> {
    let inside: Vec<&str> = folder.split_once("/src").unwrap().1.split('/').filter(|part| !part.is_empty()).collect();
    let modules: BTreeSet<&str> = sources
        .iter()
        .map(|source| source.path.strip_prefix(folder).unwrap().trim_start_matches('/'))
        .map(|rest| rest.split(['/', '.']).next().unwrap())
        .filter(|name| !["mod", "lib", "main"].contains(name))
        .collect();
    let mut found: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for source in sources {
        let rest = source.path.strip_prefix(folder).unwrap().trim_start_matches('/');
        let own = rest.split(['/', '.']).next().unwrap();
        for import in &source.imports {
            let Some(target) = import.path.get(inside.len()) else { continue };
            let is_beside = import.path.iter().zip(&inside).all(|(part, folder)| part == folder);
            if is_beside && modules.contains(own) && target != own && modules.contains(target.as_str()) {
                let place = format!("{}:{}", source.path, import.line);
                found.entry(own.to_owned()).or_default().entry(target.clone()).or_insert(place);
            }
        }
    }
    found
}

/// All that `from` imports, by whatever way.
fn reached<'g>(graph: &'g BTreeMap<String, BTreeMap<String, String>>, from: &str) -> BTreeSet<&'g str> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = next.pop() {
        for target in graph.get(&module).into_iter().flat_map(BTreeMap::keys) {
            if seen.insert(target.as_str()) {
                next.push(target.clone());
            }
        }
    }
    seen
}

/// The imports between modules of `folder` that import each other, by whatever way.
fn circles(folder: &str) -> Vec<String> {
    let graph = imports(folder, &sources(folder));
    let mut found = Vec::new();
    for (module, targets) in &graph {
        for (target, place) in targets {
            if reached(&graph, target).contains(module.as_str()) {
                found.push(format!("{place}: `{module}` uses `{target}`, which uses it"));
            }
        }
    }
    found
}

#[test]
fn modules_beside_each_other_import_in_one_direction() {
    let folders: BTreeSet<String> = CRATES.iter().flat_map(|src| folders(src)).collect();
    assert!(folders.len() > 60, "{folders:?}");
    none(folders.iter().flat_map(|folder| circles(folder)).collect(), "a lower module does not import an upper one");
}
