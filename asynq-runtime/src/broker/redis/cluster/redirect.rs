//! Reads where a node of a cluster sends a call that it did not run.

use redis::{ServerErrorKind, Value};

use super::{
    super::{reply, slots::address, url::Address},
    BrokerError,
};

/// The node that a call goes to instead.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) slot: u16,
    pub(super) to: Address,
    /// For this call only: the node is about to get the slot.
    pub(super) asking: bool,
}

impl Redirect {
    /// Reads the redirection in the answer of `from`, if the answer is one. A redirection names no host where the nodes
    /// know none but their own.
    pub(super) fn read(answer: &Result<Value, BrokerError>, from: &Address) -> Option<Self> {
        let Ok(Value::ServerError(error)) = answer else { return None };
        let asking = match error.kind()? {
            ServerErrorKind::Moved => false,
            ServerErrorKind::Ask => true,
            _ => return None,
        };
        let mut words = error.details()?.split_ascii_whitespace();
        let slot = words.next()?.parse().ok()?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let to = address(host, port.parse().ok()?, from)?;
        Some(Self { slot, to, asking })
    }
}

/// Returns whether the cluster, or the part of it that answered, waits for a failover.
pub(super) fn is_down(answer: &Result<Value, BrokerError>) -> bool {
    let code = answer.as_ref().ok().and_then(reply::error_code);
    matches!(code, Some("CLUSTERDOWN" | "MASTERDOWN" | "READONLY"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.into(), port }
    }

    fn refusal(line: &str) -> Result<Value, BrokerError> {
        redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).map_err(|_| unreachable!("it can be read"))
    }

    #[test]
    fn moved_and_ask_name_slot_and_node() {
        let from = at("here", 1);
        let read = |line: &str| Redirect::read(&refusal(line), &from);
        let to = |slot, to, asking| Some(Redirect { slot, to, asking });
        assert_eq!(read("MOVED 3999 10.0.0.1:7000"), to(3999, at("10.0.0.1", 7000), false));
        assert_eq!(read("ASK 0 redis-2.local:7001"), to(0, at("redis-2.local", 7001), true));
        assert_eq!(read("MOVED 1 ::1:7000"), to(1, at("::1", 7000), false));
        assert_eq!(read("MOVED 1 :7000"), to(1, at("here", 7000), false));
        assert_eq!(read("MOVED 1 ?:7000"), to(1, at("here", 7000), false));
        for other in ["TRYAGAIN x", "CLUSTERDOWN x", "ERR MOVED 1 h:1", "MOVED", "MOVED x h:1", "MOVED 1 h"] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(Redirect::read(&Ok(Value::Okay), &from), None);
    }

    #[test]
    fn a_part_of_the_cluster_that_waits_for_a_failover_is_known_by_the_answers_of_old_and_new_nodes() {
        for down in [
            "CLUSTERDOWN The cluster is down",
            "ERR Script attempted to execute a write command while the cluster is down and readonly script: a8b3, on \
             @user_script:31.",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "READONLY You can't write against a read only replica. script: a8b3, on @user_script:31.",
            "ERR Error running script (call to f_a8b3): @user_script:31: @user_script: 31: -READONLY You can't write \
             against a read only replica. ",
        ] {
            assert!(is_down(&refusal(down)), "{down}");
        }
        assert!(!is_down(&refusal("TRYAGAIN x")) && !is_down(&Ok(Value::Okay)));
    }
}
