//! The list of the conformance suite: each file of cases runs on every broker, or a reason explains the exception.

use std::collections::{BTreeMap, BTreeSet};

use syn::{
    Ident, Item, LitStr, Token, bracketed,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
};

use crate::tree::{none, read, rust_files};

const FOLDER: &str = "tests/conformance";

/// The brokers on which every case must run.
const COMPLETE: [&str; 2] = ["redis", "sqlite"];

/// The content of `cases! { … }`.
#[derive(Debug)]
pub(crate) struct Cases {
    all: Vec<String>,
    mounts: Vec<Mount>,
}

/// A broker, and the files that run on it.
#[derive(Debug)]
struct Mount {
    broker: String,
    fixture: String,
    files: Files,
}

#[derive(Debug)]
enum Files {
    /// The whole list without these, each with its reason.
    Except(BTreeMap<String, String>),
    Only(Vec<String>, String),
}

impl Parse for Cases {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let (all, mut mounts) = (names(input)?, Vec::new());
        while !input.is_empty() {
            mounts.push(input.parse()?);
        }
        Ok(Self { all, mounts })
    }
}

impl Parse for Mount {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let broker = input.parse::<Ident>()?.to_string();
        input.parse::<Token![:]>()?;
        let fixture = input.parse::<Ident>()?.to_string();
        let mut files = Files::Except(BTreeMap::new());
        if input.peek(syn::Ident) {
            let how: Ident = input.parse()?;
            files = if how == "only" {
                let only = names(input)?;
                input.parse::<Token![:]>()?;
                Files::Only(only, input.parse::<LitStr>()?.value())
            } else {
                Files::Except(reasons(input)?)
            };
        }
        input.parse::<Token![;]>()?;
        Ok(Self { broker, fixture, files })
    }
}

fn names(input: ParseStream<'_>) -> syn::Result<Vec<String>> {
    let list;
    bracketed!(list in input);
    let names = Punctuated::<Ident, Token![,]>::parse_terminated(&list)?;
    Ok(names.iter().map(Ident::to_string).collect())
}

fn reasons(input: ParseStream<'_>) -> syn::Result<BTreeMap<String, String>> {
    let list;
    bracketed!(list in input);
    let pair = |input: ParseStream<'_>| {
        let name: Ident = input.parse()?;
        input.parse::<Token![:]>()?;
        Ok((name.to_string(), input.parse::<LitStr>()?.value()))
    };
    Ok(Punctuated::<_, Token![,]>::parse_terminated_with(&list, pair)?.into_iter().collect())
}

/// The list in the text of `conformance/main.rs`, and the files that `cargo fmt` finds.
fn parse(main: &str) -> (Cases, Vec<String>) {
    let items = syn::parse_file(main).unwrap().items;
    let cases = items.iter().find_map(|item| match item {
        Item::Macro(call) if call.mac.path.is_ident("cases") => Some(call.mac.parse_body().unwrap()),
        _ => None,
    });
    let formatted = items.iter().find_map(|item| match item {
        Item::Mod(module) if module.ident == "formatted" => module.content.as_ref().map(|(_, items)| items),
        _ => None,
    });
    let formatted = formatted.into_iter().flatten().filter_map(|item| match item {
        Item::Mod(module) => Some(module.ident.to_string()),
        _ => None,
    });
    (cases.expect("cases! { … }"), formatted.collect())
}

/// The faults in the text of `conformance/main.rs`, beside the given `files` of cases and `fixtures`.
fn mistakes(main: &str, files: &BTreeSet<String>, fixtures: &BTreeSet<String>) -> Vec<String> {
    let (cases, formatted) = parse(main);
    let all: BTreeSet<String> = cases.all.iter().cloned().collect();
    let mut mistakes = Vec::new();
    let mut unequal = |list: &str, listed: &BTreeSet<String>, there: &BTreeSet<String>| {
        mistakes.extend(there.difference(listed).map(|name| format!("{name} is not in {list}")));
        mistakes.extend(listed.difference(there).map(|name| format!("{name} of {list} does not exist")));
    };
    unequal("the list of cases", &all, files);
    unequal("`mod formatted`", &formatted.into_iter().collect(), files);
    unequal("the mounts", &cases.mounts.iter().map(|mount| mount.fixture.clone()).collect(), fixtures);
    for complete in COMPLETE {
        let mount = cases.mounts.iter().find(|mount| mount.broker == complete);
        if !mount.is_some_and(Mount::is_whole) {
            mistakes.push(format!("`{complete}` does not run every file"));
        }
    }
    for Mount { broker, files, .. } in &cases.mounts {
        let (names, reasons): (Vec<&String>, Vec<&String>) = match files {
            Files::Except(files) => files.iter().unzip(),
            Files::Only(files, reason) => (files.iter().collect(), vec![reason]),
        };
        let unknown = names.into_iter().filter(|name| !all.contains(*name));
        mistakes.extend(unknown.map(|name| format!("`{broker}` names {name}, which is not in the list")));
        if reasons.iter().any(|reason| reason.trim().is_empty()) {
            mistakes.push(format!("`{broker}` leaves files out without a reason"));
        }
    }
    mistakes
}

impl Mount {
    fn is_whole(&self) -> bool {
        matches!(&self.files, Files::Except(files) if files.is_empty())
    }
}

impl Cases {
    /// The cases of `conformance/main.rs`.
    pub(crate) fn read() -> Self {
        parse(&read(&format!("{FOLDER}/main.rs"))).0
    }

    /// Whether `broker` is mounted and runs every file; `None` if it is not mounted.
    pub(crate) fn is_whole(&self, broker: &str) -> Option<bool> {
        self.mounts.iter().find(|mount| mount.broker == broker).map(Mount::is_whole)
    }
}

/// The text of the list, the files of cases beside it (not those of one store `_only`), and the fixtures that asynq-tests exports.
fn on_disk() -> (String, BTreeSet<String>, BTreeSet<String>) {
    let name = |path: String| Some(path.strip_prefix(FOLDER)?.strip_prefix('/')?.strip_suffix(".rs")?.to_owned());
    let files = rust_files(FOLDER).into_iter().filter_map(name).filter(|name| !name.contains('/') && name != "main");
    let files = files.filter(|name| !name.ends_with("_only")).collect();
    let fixtures =
        syn::parse_file(&read("tests/src/lib.rs")).unwrap().items.into_iter().filter_map(|item| match item {
            Item::Type(alias) => Some(alias.ident.to_string()),
            _ => None,
        });
    (read(&format!("{FOLDER}/main.rs")), files, fixtures.filter(|name| name.ends_with("Fixture")).collect())
}

#[test]
fn every_file_of_cases_runs_on_every_broker_or_a_reason_says_why_not() {
    let (main, files, fixtures) = on_disk();
    none(mistakes(&main, &files, &fixtures), "tests/conformance/main.rs");
}

#[test]
fn each_case_that_is_taken_out_of_the_list_is_missed() {
    let (main, files, fixtures) = on_disk();
    let begin = main.find("\ncases! {").unwrap();
    let without = |part: &str| {
        let at = begin + main[begin..].find(part).unwrap_or_else(|| panic!("{part:?} is in the list"));
        format!("{}{}", &main[..at], &main[at + part.len()..])
    };
    for file in &files {
        let missed = mistakes(&without(&format!(" {file},")), &files, &fixtures);
        assert!(missed.contains(&format!("{file} is not in the list of cases")), "{file}: {missed:?}");
        let unformatted = main.replace(&format!("\n    mod {file};\n"), "\n");
        assert_eq!(mistakes(&unformatted, &files, &fixtures), [format!("{file} is not in `mod formatted`")]);
        for broker in ["redis: RedisFixture", "sqlite: SqliteFixture"] {
            let less = main.replace(&format!("{broker};"), &format!("{broker} except [{file}: \"it is slow\"];"));
            assert_eq!(mistakes(&less, &files, &fixtures).len(), 1, "{file} is left out of {broker}");
        }
    }
    for fixture in &fixtures {
        let there = main.lines().find(|line| line.contains(&format!(": {fixture}"))).unwrap();
        let begins = main.find(there).unwrap();
        let ends = begins + main[begins..].find(";\n").unwrap() + 1;
        let missed = mistakes(&format!("{}{}", &main[..begins], &main[ends..]), &files, &fixtures);
        assert!(missed.contains(&format!("{fixture} is not in the mounts")), "{fixture}: {missed:?}");
    }
    let unexplained = main.replace("sqlite: SqliteFixture;", "sqlite: SqliteFixture except [wake: \" \"];");
    let missed = mistakes(&unexplained, &files, &fixtures);
    assert!(missed.contains(&"`sqlite` leaves files out without a reason".to_owned()), "{missed:?}");
}
