use std::collections::{BTreeMap, HashMap, HashSet};

use super::*;

#[derive(Serialize)]
struct Sum {
    cents: u32,
    count: u32,
}

#[derive(Serialize)]
struct Swapped {
    count: u32,
    cents: u32,
}

#[derive(Serialize)]
struct Id<T>(T);

#[derive(Serialize, PartialEq, Eq, Hash)]
enum End {
    Sold(u64),
    Gone,
    Moved { to: String },
}

#[test]
fn values_that_postcard_writes_alike_have_different_numbers() {
    let numbers = [
        of(&240_u64),
        of(&120_i64),
        of(&7_u8),
        of(&7_i8),
        of(&'x'),
        of("x"),
        of(&Sum { cents: 1, count: 2 }),
        of(&Swapped { count: 1, cents: 2 }),
        of(&(1_u32, 2_u32)),
        of(&Some(1_u32)),
        of(&None::<u32>),
        of(&vec![1_u64, 2]),
        of(&vec![1_i64, 2]),
        of(&Vec::<u64>::new()),
        of(&[(); 0]),
        of(&HashMap::from([(1_u8, 2_u8)])),
        of(&vec![(1_u8, 2_u8)]),
        of(&End::Sold(1)),
        of(&End::Gone),
        of(&End::Moved { to: "ann".into() }),
        of(&()),
    ];
    assert!(numbers.iter().all(Option::is_some));
    assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len(), "{numbers:?}");
}

#[test]
fn what_does_not_change_the_kinds_does_not_change_the_number() {
    assert_eq!(of(&7_u64), of(&u16::MAX));
    assert_eq!(of(&-7_i64), of(&7_i32));
    assert_eq!(of("a"), of(&"another".to_owned()));
    assert_eq!(of(&Id(7_u64)), of(&7_u64), "a newtype is what it holds");
    assert_eq!(of(&HashMap::from([("a", 1)])), of(&BTreeMap::from([("b", 2)])));
    let ends = || [End::Gone, End::Sold(3), End::Moved { to: "x".into() }];
    assert_eq!(of(&Vec::from(ends())), of(&ends().into_iter().rev().collect::<Vec<_>>()), "order of elements");
    assert_eq!(of(&Vec::from(ends())), of(&HashSet::from(ends())));
}

#[test]
fn the_number_never_changes() {
    assert_eq!(of(&(Sum { cents: 1, count: 2 }, vec![End::Gone])), Some(425_467_945));
}
