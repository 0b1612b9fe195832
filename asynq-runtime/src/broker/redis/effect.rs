//! Says of a call that failed whether it may have changed something.

use super::{super::BrokerError, reply};

/// Returns whether the call changed nothing: no byte of it was written, or Redis refused it before its first write.
pub(super) fn changed_nothing(error: &BrokerError) -> bool {
    error.is_unsent() || reply::wrote_nothing(error)
}

/// Returns the error of a change that is one call. Where Redis was unavailable, the error says whether the change may have been made.
pub(super) fn of_change(error: BrokerError) -> BrokerError {
    if changed_nothing(&error) { unchanged(error) } else { of_steps(error) }
}

/// Returns the error of one slice of a longer change. Its words are left to the error around it, which counts the slices before.
pub(super) fn of_slice(error: BrokerError) -> BrokerError {
    if changed_nothing(&error) { error.without_effect() } else { error }
}

/// Returns the error of a change that had not begun, as its first read failed.
pub(super) fn unchanged(error: BrokerError) -> BrokerError {
    if error.is_ambiguous() { saying(error, "nothing was changed").without_effect() } else { error }
}

/// Returns the error of a change of several calls, of which earlier ones may have taken effect.
pub(super) fn of_steps(error: BrokerError) -> BrokerError {
    if error.is_ambiguous() { saying(error, "whether the call took effect is unknown") } else { error }
}

fn saying(error: BrokerError, effect: &str) -> BrokerError {
    BrokerError::with_source(error.kind(), format!("{error}; {effect}"), error)
}

#[cfg(test)]
mod tests {
    use super::{super::super::BrokerErrorKind, *};

    #[test]
    fn the_error_of_a_change_says_whether_it_may_have_been_made() {
        use BrokerErrorKind::{Closed, Denied, Timeout, Unavailable};
        let refused = |line: &str| {
            let answer = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
            reply::answer(answer).unwrap_err()
        };
        let (unknown, nothing) = (Some("; whether the call took effect is unknown"), Some("; nothing was changed"));
        let cases = [
            (BrokerError::new(Timeout, "late"), unknown, true),
            (BrokerError::new(Unavailable, "the connection was cut"), unknown, true),
            (BrokerError::new(Timeout, "no connection").unsent(), nothing, false),
            (BrokerError::new(Unavailable, "refused").unsent(), nothing, false),
            (refused("READONLY You can't write against a read only replica."), nothing, false),
            (refused("LOADING Redis is loading the dataset in memory"), nothing, false),
            (BrokerError::new(Closed, "closed").unsent(), None, false),
            (BrokerError::new(Denied, "denied"), None, false),
        ];
        for (error, words, is_ambiguous) in cases {
            let told = of_change(error.clone());
            assert_eq!((told.kind(), told.is_ambiguous()), (error.kind(), is_ambiguous), "{error}");
            assert_eq!(told.to_string(), format!("{error}{}", words.unwrap_or_default()));
            let told = of_slice(error.clone());
            assert_eq!((told.to_string(), told.is_ambiguous()), (error.to_string(), is_ambiguous));
            // Each step of a longer change may have been preceded by one that took effect.
            assert_eq!(of_steps(error.clone()).is_ambiguous(), error.is_unavailable(), "{error}");
            assert!(!unchanged(error).is_ambiguous());
        }
        let over = unchanged(BrokerError::new(Timeout, "late"));
        assert_eq!(of_steps(over.clone()).to_string(), over.to_string(), "it is said once");
    }
}
