//! Modules beside each other import in one direction: no two of them, by whatever way, import each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    source::{Source, sources},
    tree::none,
};

/// Folders whose modules are looked at. The items of a folder's own `mod.rs` or `lib.rs` are left out: they hold the parts together.
const FOLDERS: [&str; 13] = [
    "asynq-cli/src",
    "asynq-cli/src/command",
    "asynq-cli/src/dash",
    "asynq-cli/src/doctor",
    "asynq-cron/src",
    "asynq-cron/src/scheduler",
    "asynq-dashboard/src",
    "asynq-dashboard/src/page",
    "asynq-grammar/src",
    "asynq-macros/src",
    "asynq-runtime/src/broker",
    "asynq-runtime/src/client",
    "asynq-runtime/src/inspector",
];

/// Which module of `folder` imports which other, and where it does first.
fn imports(folder: &str, sources: &[Source]) -> BTreeMap<String, BTreeMap<String, String>> {
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

#[test]
fn modules_beside_each_other_import_in_one_direction() {
    let mut broken = Vec::new();
    for folder in FOLDERS {
        let graph = imports(folder, &sources(folder));
        if graph.is_empty() {
            println!("EMPTY uses {folder}");
        }
        for (module, targets) in &graph {
            for (target, place) in targets {
                if reached(&graph, target).contains(module.as_str()) {
                    broken.push(format!("{place}: `{module}` uses `{target}`, which uses it"));
                }
            }
        }
    }
    none(broken, "what is below does not import what is above");
}
