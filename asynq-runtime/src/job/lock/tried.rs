//! Tries whether today's job takes a sample of an earlier shape, as a worker would read it.

use std::cell::Cell;

use super::{
    LockedShape,
    contents::{Contents, Numbers, Sample},
};
use crate::job::{
    JobDescriptor, ShapeLookup,
    codec::{POSTCARD, header},
    shape::{ShapeDocument, encode_sample, of_type::STRINGS},
};

/// The text of refusals by a type's own rules, in both codecs: samples cannot tell whether real values pass.
const OWN_RULES: &str = "a value that its type does not take";
/// serde's words for a type that takes each value of its kind that fits.
const PLAIN: [&str; 15] = [
    "i8",
    "i16",
    "i32",
    "i64",
    "i128",
    "isize",
    "u8",
    "u16",
    "u32",
    "u64",
    "u128",
    "usize",
    "a character",
    "a string",
    "a boolean",
];
/// The most numbers of a sample that are made the smallest and the largest one by one.
const MOST_NUMBERS: usize = 500;
/// The most samples of a shape that are read; the others count as not read.
const MOST_READ: usize = 50_000;

/// The answer of today's job to a sample, worst last.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    Taken,
    /// The type's own rules refused the sample, so that not all of it was read.
    NotRead,
    /// The sample cannot be written with this codec.
    NotMade,
    /// A value like this waits, for this reason.
    Refused(String),
}

/// Samples of this shape before this job.
pub(super) struct Trial<'t> {
    shape: &'t LockedShape,
    document: &'t ShapeDocument,
    job: &'t JobDescriptor,
    lookup: ShapeLookup,
    /// How many samples may still be read.
    left: Cell<usize>,
}

impl<'t> Trial<'t> {
    pub(super) fn new(shape: &'t LockedShape, document: &'t ShapeDocument, job: &'t JobDescriptor) -> Self {
        Self { shape, document, job, lookup: Ok(document.clone()), left: Cell::new(MOST_READ) }
    }

    /// Returns the worst answer to a sample with usual numbers, with the smallest and with the largest.
    pub(super) fn answer(&self, sample: &Sample<'_>) -> Answer {
        let all: &[_] = &STRINGS;
        let (mut worst, text) = self.with_any_text(sample, Numbers::One, all);
        let places = sample.numbers();
        let extremes = [Numbers::Smallest, Numbers::Largest].into_iter().filter(|_| places > 0);
        for numbers in extremes {
            if matches!(worst, Answer::Refused(_)) {
                break;
            }
            // The text that was taken with usual numbers is taken with others.
            let texts = text.as_ref().map_or(all, std::slice::from_ref);
            let answer = match (self.with_any_text(sample, numbers, texts).0, text) {
                // A rule for one number, or for several together, hides those that are read after it.
                (Answer::NotRead, Some(text)) => self.one_by_one(sample, numbers, places, text),
                (answer, _) => answer,
            };
            worst = worst.max(answer);
        }
        worst
    }

    /// Returns the worst answer to a sample in which one number after the other is extreme.
    fn one_by_one(&self, sample: &Sample<'_>, numbers: Numbers, places: usize, text: &'static str) -> Answer {
        let alone = |place| self.with(sample, Contents { text, numbers, only: Some(place) });
        let worst = (0..places.min(MOST_NUMBERS)).map(alone).max().unwrap_or(Answer::Taken);
        if places > MOST_NUMBERS { worst.max(Answer::NotRead) } else { worst }
    }

    /// Returns the answer to a sample with the first of these texts that the type's own rules take, and that text if the
    /// sample is taken: nothing else depends on the text.
    fn with_any_text(
        &self,
        sample: &Sample<'_>,
        numbers: Numbers,
        texts: &[&'static str],
    ) -> (Answer, Option<&'static str>) {
        for &text in texts.iter().take(if sample.has_text() { texts.len() } else { 1 }) {
            match self.with(sample, Contents { text, numbers, only: None }) {
                Answer::NotRead => {}
                Answer::Taken => return (Answer::Taken, Some(text)),
                answer => return (answer, None),
            }
        }
        (Answer::NotRead, None)
    }

    fn with(&self, sample: &Sample<'_>, contents: Contents) -> Answer {
        let Some(left) = self.left.get().checked_sub(1) else { return Answer::NotRead };
        self.left.set(left);
        let Some(payload) = self.payload(sample, contents) else { return Answer::NotMade };
        match self.job.reads(&payload, Some(&self.lookup)) {
            Ok(()) => Answer::Taken,
            Err(error) if is_own_rule(error.reason()) => Answer::NotRead,
            Err(error) => Answer::Refused(error.reason().to_owned()),
        }
    }

    fn payload(&self, sample: &Sample<'_>, contents: Contents) -> Option<Vec<u8>> {
        if self.shape.is_json() {
            return sample.to_json(contents);
        }
        let arguments = encode_sample(self.document, &sample.to_arguments(contents)?).ok()?;
        Some([&header(POSTCARD, self.shape.number()?)[..], &arguments].concat())
    }
}

/// Returns whether a value was refused by a type's own rules, which may be those of a `NonZero`: it says in serde's words that it expected
/// `a nonzero u32`.
fn is_own_rule(reason: &str) -> bool {
    let invalid = reason.split_once("invalid value: ").and_then(|(_, invalid)| invalid.rsplit_once(", expected "));
    let is_plain = |expected: &str| PLAIN.contains(&expected.split(" at line ").next().unwrap_or_default());
    reason.contains(OWN_RULES) || invalid.is_some_and(|(_, expected)| !is_plain(expected))
}
