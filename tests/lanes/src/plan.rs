//! The plan of a binary before its run: its place in the order, its threads and its niceness.

/// How a binary is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Lower numbers start earlier: binaries that are long or wait for the clock go first, so that none is left over at the end.
    pub(crate) place: usize,
    /// Concurrent tests for each processor: many where tests wait, one where they compute.
    pub(crate) threads: usize,
    /// Binaries that only compute yield to those that wait for events.
    pub(crate) niceness: u32,
}

/// The name, the threads and the niceness of binaries that take long; all others follow in any order. A binary whose tests wait for
/// processes and for the clock costs little beside the others, and all of its time where it is the last.
const LONG: &[(&str, usize, u32)] = &[
    ("doc-tests", 1, 0),
    ("asynq-tests::browser", 2, 0),
    ("asynq-tests::conformance", 8, 5),
    ("asynq-tests::programs", 4, 0),
    ("asynq-tests::observe", 4, 0),
    ("asynq-tests::it", 4, 0),
    ("asynq-cli::commands", 4, 0),
    ("asynq-tests::evolve", 4, 0),
    ("asynq-template-tests::templates", 4, 0),
    ("asynq-cron::it", 4, 0),
    ("asynq-tests::runtime", 4, 0),
    ("asynq-tests::examples", 4, 0),
    // The rest only computes.
    ("asynq-ui-tests::ui", 1, 5),
    ("asynq-bench::quick", 1, 5),
    ("asynq-repository-tests::asynq_repository_tests", 1, 5),
];

/// The most tests that one binary runs at a time: each holds dozens of files and connections open, of which a process may have 1,024
/// by default.
const MOST: usize = 32;

impl Plan {
    /// Returns the number of concurrent tests on this many processors.
    pub(crate) fn tests_at_a_time(self, processors: usize) -> usize {
        (self.threads * processors).min(MOST)
    }
}

/// Returns how many binaries run their timing tests side by side: such a test waits most of its time, and leaves one processor to
/// another.
pub(crate) fn timing_at_a_time(processors: usize) -> usize {
    processors.min(2)
}

/// The binaries whose timing tests take longest, the longest first.
const LONG_TIMING: [&str; 3] = ["asynq-tests::runtime", "asynq-tests::observe", "asynq-tests::conformance"];

/// Returns the place of the binary `name` in the order of the timing tests: the longest go first, so that none is left over at the end.
pub(crate) fn timing_place(name: &str) -> usize {
    LONG_TIMING.iter().position(|long| *long == name).unwrap_or(LONG_TIMING.len())
}

/// Returns the plan of the binary `name`.
pub(crate) fn of(name: &str) -> Plan {
    let found = LONG.iter().enumerate().find(|(_, (long, ..))| *long == name);
    found.map_or(Plan { place: LONG.len(), threads: 2, niceness: 0 }, |(place, &(_, threads, niceness))| Plan {
        place,
        threads,
        niceness,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_ones_go_first() {
        // Cargo runs the doc tests of one crate after those of another, so nothing but an early start lets them end early.
        assert_eq!(of("doc-tests"), Plan { place: 0, threads: 1, niceness: 0 });
        assert!(of("asynq-tests::conformance").place < of("asynq-grammar::asynq_grammar").place);
        // A test of `programs` waits for the next half minute.
        assert!(of("asynq-tests::programs").place < of("asynq-ui-tests::ui").place);
        assert_eq!(of("something new"), Plan { place: LONG.len(), threads: 2, niceness: 0 });
    }

    #[test]
    fn the_longest_timing_tests_go_first() {
        let mut names =
            ["asynq-tests::programs", "asynq-tests::conformance", "asynq-tests::observe", "asynq-tests::it"];
        names.sort_by_key(|name| timing_place(name));
        let sorted = ["asynq-tests::observe", "asynq-tests::conformance", "asynq-tests::programs", "asynq-tests::it"];
        assert_eq!(names, sorted);
    }

    #[test]
    fn timing_tests_of_two_binaries_never_share_a_processor() {
        assert_eq!([1, 2, 64].map(timing_at_a_time), [1, 2, 2]);
    }

    #[test]
    fn many_processors_open_no_more_files_than_a_process_may() {
        let conformance = of("asynq-tests::conformance");
        let at_a_time = [1, 2, 4, 5, 128].map(|processors| conformance.tests_at_a_time(processors));
        assert_eq!(at_a_time, [8, 16, 32, 32, 32]);
    }
}
