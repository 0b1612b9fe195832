//! Tells the aliases of fields from the fields: serde announces both, sorted, and reads fields alone.
//!
//! Two neighbours among the announced names are given one after the other as the keys of a map. If they stand for one field,
//! the derived code says that the field is there twice, and by which name it is read; else it asks for the value of the
//! second. Each pair takes a pass.

use super::{
    Pass,
    arena::{Named, Slot},
    export::{ReadName, ReadNames},
    probe::{Answer, Probe, TWICE},
    recorder::Recorder,
};

/// Returns the names by which the fields of every struct with aliases are read, if they can be found out.
pub(super) fn read_names(recorder: &mut Recorder, pass_once: Pass<'_>) -> ReadNames {
    let structs = recorder.arena.with_aliases();
    structs.into_iter().filter_map(|of| Some((of, names(recorder, of, pass_once)?))).collect()
}

fn names(recorder: &mut Recorder, of: (Named, Option<usize>), pass_once: Pass<'_>) -> Option<Vec<ReadName>> {
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
        let _ = pass_once(recorder);
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
