//! The source from which a visitor reads the two names of a probe.

use serde::de::{self, DeserializeSeed, IntoDeserializer as _, value::StrDeserializer};

use super::{
    super::{
        probe::{Answer, Probe},
        recorder::{Recorder, Stop},
    },
    At,
};

/// The entries of a probe: two names, of which only the first gets a value. A type that asks for the second takes both as names of
/// one field.
pub(super) struct ProbeEntries<'r> {
    recorder: &'r mut Recorder,
    probe: Probe,
    given: usize,
}

impl<'r> ProbeEntries<'r> {
    pub(super) fn new(recorder: &'r mut Recorder, probe: Probe) -> Self {
        recorder.probe = Some((probe, Some(Answer::Pending)));
        Self { recorder, probe, given: 0 }
    }
}

impl<'de> de::MapAccess<'de> for ProbeEntries<'_> {
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
