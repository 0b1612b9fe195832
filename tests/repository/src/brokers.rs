//! Both brokers have the same contracts, each in a file of the contract's name.

use std::collections::BTreeMap;

use syn::{Item, TypeParamBound};

use crate::tree::{none, read, root, rust_files};

const BROKER: &str = "asynq-runtime/src/broker";

fn items(path: &str) -> Vec<Item> {
    syn::parse_file(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}")).items
}

/// The contracts that `Broker` is made of, each with the name of its file.
fn contracts() -> BTreeMap<String, String> {
    let mut defined = BTreeMap::new();
    for path in
        rust_files(BROKER).into_iter().filter(|path| path.matches('/').count() == BROKER.matches('/').count() + 1)
    {
        let name = path.rsplit('/').next().unwrap().trim_end_matches(".rs");
        for item in items(&path) {
            if let Item::Trait(item) = item {
                defined.insert(item.ident.to_string(), (name.to_owned(), item));
            }
        }
    }
    let (_, broker) = &defined["Broker"];
    let bounds = broker.supertraits.iter().filter_map(|bound| match bound {
        TypeParamBound::Trait(bound) => Some(bound.path.segments.last()?.ident.to_string()),
        _ => None,
    });
    bounds.filter_map(|bound| Some((bound.clone(), defined.get(&bound)?.0.clone()))).collect()
}

/// Whether the file implements the trait for the broker.
fn implements(path: &str, contract: &str, broker: &str) -> bool {
    items(path).iter().any(|item| {
        let Item::Impl(item) = item else { return false };
        let Some((of, _)) = &item.trait_ else { return false };
        let syn::Type::Path(on) = &*item.self_ty else { return false };
        of.is_ident(contract) && on.path.is_ident(broker)
    })
}

#[test]
fn both_brokers_have_a_file_per_contract() {
    let contracts = contracts();
    assert_eq!(contracts.len(), 12, "broker/mod.rs and ARCHITECTURE.md say twelve: {contracts:?}");
    let mut missing = Vec::new();
    for (folder, broker) in [("redis", "RedisBroker"), ("sqlite", "SqliteBroker")] {
        for (contract, file) in &contracts {
            let paths = [format!("{BROKER}/{folder}/{file}.rs"), format!("{BROKER}/{folder}/{file}/mod.rs")];
            let there = paths.iter().filter(|path| root().join(path).exists());
            if !there.into_iter().any(|path| implements(path, contract, broker)) {
                missing.push(format!("{} does not hold `impl {contract} for {broker}`", paths.join(" or ")));
            }
        }
    }
    none(missing, "`ls broker/redis broker/sqlite` shows the contracts twice");
}
