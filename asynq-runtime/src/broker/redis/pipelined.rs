//! Calls that go out in one pipeline, and once more those whose script Redis has forgotten.

use std::mem;

use redis::{Cmd, Pipeline, Value};

use super::{
    reply::is_noscript,
    script::{Call, Script},
};

/// Calls in one pipeline.
pub(super) struct Pipelined {
    pub(super) pipeline: Pipeline,
    calls: Vec<PlacedCall>,
}

struct PlacedCall {
    /// Its index in the pipeline: some calls follow an `ASKING`.
    place: usize,
    script: Option<&'static Script>,
    asking: bool,
}

/// The scripts of a pipeline that Redis does not know, with their text.
pub(super) struct Forgotten {
    pub(super) pipeline: Pipeline,
    /// The index of each script in the pipeline before, and in this one.
    places: Vec<(usize, usize)>,
}

impl Pipelined {
    pub(super) fn new(calls: Vec<Call>) -> Self {
        let (mut pipeline, mut placed) = (Pipeline::with_capacity(calls.len()), Vec::with_capacity(calls.len()));
        for call in calls {
            let (script, asking, command) = call.into_parts();
            placed.push(PlacedCall { place: push(&mut pipeline, asking, command), script, asking });
        }
        Self { pipeline, calls: placed }
    }

    /// Returns the scripts that Redis does not know by its answers; `None` if it knows all of them.
    pub(super) fn forgotten(&self, answers: &[Value]) -> Option<Forgotten> {
        let mut forgotten = Forgotten { pipeline: Pipeline::new(), places: Vec::new() };
        for call in &self.calls {
            if answers.get(call.place).is_some_and(is_noscript)
                && let (Some(script), Some(command)) = (call.script, self.pipeline.cmd_iter().nth(call.place))
            {
                let place = push(&mut forgotten.pipeline, call.asking, script.with_text(command));
                forgotten.places.push((call.place, place));
            }
        }
        (!forgotten.places.is_empty()).then_some(forgotten)
    }

    /// Returns the answers to the calls, without those to `ASKING`.
    pub(super) fn without_asking(&self, mut answers: Vec<Value>) -> Vec<Value> {
        self.calls.iter().map(|call| take(&mut answers, call.place)).collect()
    }
}

impl Forgotten {
    /// Puts the answers to these scripts in place of the errors among `answers`.
    pub(super) fn replace(self, answers: &mut [Value], mut by: Vec<Value>) {
        for (before, place) in self.places {
            if let Some(answer) = answers.get_mut(before) {
                *answer = take(&mut by, place);
            }
        }
    }
}

fn take(answers: &mut [Value], place: usize) -> Value {
    answers.get_mut(place).map(mem::take).unwrap_or_default()
}

/// Adds a command, after an `ASKING` if `asking`, which a node requires that is only about to own its slot. Returns its index.
fn push(pipeline: &mut Pipeline, asking: bool, command: Cmd) -> usize {
    if asking {
        pipeline.cmd("ASKING");
    }
    pipeline.add_command(command);
    pipeline.len() - 1
}
