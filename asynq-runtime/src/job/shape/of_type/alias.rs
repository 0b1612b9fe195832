//! Tells the aliases of fields from the fields: serde announces both, sorted, and reads fields alone.
//!
//! Two neighbours among the announced names are given one after the other as the keys of a map. If they stand for one field,
//! the derived code says that the field is there twice, and by which name it is read; else it asks for the value of the
//! second. Each pair takes a pass.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer as _, value::StrDeserializer};

use super::{
    arena::{Named, Slot},
    at::At,
    export::{ReadName, ReadNames},
    recorder::{Recorder, Stop},
};

thread_local! {
    /// The name of the field that was there twice in this pass. A type may replace the error that carries the name.
    static TWICE: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Two names of one struct or variant, and the slot of the field that the first stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    pub(super) of: (Named, Option<usize>),
    first: (&'static str, Slot),
    second: &'static str,
}

/// The answer of a pass about its two names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The pass came to the struct and has not ended.
    Pending,
    TwoFields,
}

/// Notes that a field was there twice.
pub(super) fn note_twice(field: &'static str) {
    TWICE.set(Some(field));
}

/// Returns the names by which the fields of every struct with aliases are read, if they can be found out.
pub(super) fn read_names<T: DeserializeOwned>(recorder: &mut Recorder) -> ReadNames {
    let structs = recorder.arena.with_aliases();
    structs.into_iter().filter_map(|of| Some((of, names::<T>(recorder, of)?))).collect()
}

fn names<T: DeserializeOwned>(recorder: &mut Recorder, of: (Named, Option<usize>)) -> Option<Vec<ReadName>> {
    let announced = recorder.arena.names_of(of);
    let slots: Vec<Slot> = announced.iter().map(|&(_, slot)| slot).collect();
    let read = slots.iter().filter(|&&slot| recorder.arena.is_seen(slot)).count();
    // The name of a field is the first of its names, until serde's own name is known.
    let one = |name| ReadName { name, all: vec![name] };
    let mut names = vec![one(announced.first()?.0)];
    for pair in announced.windows(2) {
        let [(before, _), (second, _)] = *pair else { return None };
        let slot = *slots.get(names.len() - 1)?;
        TWICE.set(None);
        recorder.begin_pass();
        recorder.probe = Some((Probe { of, first: (before, slot), second }, None));
        let _ = catch_unwind(AssertUnwindSafe(|| T::deserialize(recorder.at_root()).map(drop)));
        match (recorder.probe.take()?.1?, TWICE.take()) {
            (Answer::Pending, Some(field)) => {
                let last = names.last_mut()?;
                last.name = field;
                last.all.push(second);
            }
            (Answer::TwoFields, _) => names.push(one(second)),
            // A hand-written `Deserialize` has taken both names.
            (Answer::Pending, None) => return None,
        }
    }
    (names.len() == read).then_some(names)
}

/// The entries of a probe: the value of the second is never given.
pub(super) struct TwoEntries<'r> {
    recorder: &'r mut Recorder,
    probe: Probe,
    given: usize,
}

impl<'r> TwoEntries<'r> {
    pub(super) fn new(recorder: &'r mut Recorder, probe: Probe) -> Self {
        recorder.probe = Some((probe, Some(Answer::Pending)));
        Self { recorder, probe, given: 0 }
    }
}

impl<'de> de::MapAccess<'de> for TwoEntries<'_> {
    type Error = Stop;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Stop> {
        self.given += 1;
        let name = if self.given == 1 { self.probe.first.0 } else { self.probe.second };
        let name: StrDeserializer<'_, Stop> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Stop> {
        if self.given == 1 {
            return seed.deserialize(At { recorder: self.recorder, slot: self.probe.first.1 });
        }
        self.recorder.probe = Some((self.probe, Some(Answer::TwoFields)));
        Err(self.recorder.stop())
    }
}
