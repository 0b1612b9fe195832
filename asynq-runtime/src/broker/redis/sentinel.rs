//! Asks the sentinels for the address of the master.

mod master_watch;

use std::{collections::HashMap, sync::Arc, time::Duration};

use redis::{ProtocolVersion, PushInfo, Value};
use tokio::sync::Notify;

pub(super) use self::master_watch::MasterWatch;

use super::{
    super::{BrokerError, BrokerErrorKind, config, unavailable},
    open_connection::open_connection,
    reply::{self, answer},
    socket::OpenConnection,
    url::{Address, Sentinels, Target},
};

/// The answer of one sentinel: the master, or `None` if it knows no master of that name.
type Vote = Result<Option<Address>, BrokerError>;

fn late() -> BrokerError {
    BrokerError::new(BrokerErrorKind::Timeout, "no answer came in time")
}

/// Opens a connection to a sentinel, on which it reports failovers to `told` if it speaks RESP3.
async fn open(
    target: &Target,
    sentinels: &Sentinels,
    sentinel: &Address,
    patience: Duration,
    told: Arc<Notify>,
) -> Result<OpenConnection, BrokerError> {
    let listener = Some(move |_: PushInfo| told.notify_one());
    let opening = open_connection(sentinel, target, &sentinels.login, listener, true, patience, || {});
    let (connection, protocol) = opening.await?;
    if protocol == ProtocolVersion::RESP3 {
        let mut subscribe = redis::pipe();
        subscribe.cmd("SUBSCRIBE").arg("+switch-master");
        // A user who may not subscribe may ask all the same.
        connection.exchange(&subscribe).await?;
    }
    Ok(connection)
}

/// Asks a sentinel for the address of the master.
async fn question(connection: &OpenConnection, sentinels: &Sentinels) -> Vote {
    let mut question = redis::pipe();
    question.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&sentinels.master);
    let values = connection.exchange(&question).await?;
    read(answer(values.into_iter().next().unwrap_or_default())?)
}

fn read(value: Value) -> Vote {
    let parts: Vec<String> = reply::array(value)?.into_iter().filter_map(reply::text).collect();
    match &parts[..] {
        [] => Ok(None),
        [host, port] => {
            let port = port.parse().map_err(|_| reply::unexpected("no port"))?;
            Ok(Some(Address::Tcp { host: host.clone(), port }))
        }
        _ => Err(reply::unexpected("no address")),
    }
}

fn count<'v>(votes: impl IntoIterator<Item = &'v Vote>) -> HashMap<&'v Address, usize> {
    let mut named = HashMap::new();
    for address in votes.into_iter().filter_map(|vote| vote.as_ref().ok()?.as_ref()) {
        *named.entry(address).or_insert(0) += 1;
    }
    named
}

/// Returns the master that more than half of all sentinels name.
fn majority(votes: &[Option<Vote>]) -> Option<Address> {
    let named = count(votes.iter().flatten());
    named.into_iter().find(|(_, named)| 2 * named > votes.len()).map(|(address, _)| address.clone())
}

/// Returns the master that most of the answers name; the first named of equals.
fn most_named(votes: Vec<Vote>, name: &str) -> Result<Address, BrokerError> {
    let named = count(&votes);
    let most = named.values().max().copied();
    let first = votes.iter().filter_map(|vote| vote.as_ref().ok()?.as_ref());
    if let Some(master) = first.into_iter().find(|address| named.get(address).copied() == most) {
        return Ok(master.clone());
    }
    if votes.iter().any(Result::is_ok) {
        let message = format!("the sentinels know no master named `{name}`: see master= in the Redis URL");
        return Err(config(message));
    }
    let mut errors: Vec<BrokerError> = votes.into_iter().filter_map(Result::err).collect();
    // An error that does not pass by itself comes first, because people have to know it.
    errors.sort_by_key(BrokerError::is_unavailable);
    match errors.into_iter().next() {
        Some(error) => {
            let message = format!("no sentinel answered: {error}");
            Err(BrokerError::with_source(error.kind(), message, error))
        }
        None => Err(unavailable("no sentinel answered")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> Address {
        Address::Tcp { host: "h".into(), port }
    }

    fn error(kind: BrokerErrorKind) -> Vote {
        Err(BrokerError::new(kind, "x"))
    }

    #[test]
    fn more_than_half_decide_at_once_and_otherwise_most() {
        let a = || Ok(Some(at(1)));
        let b = || Ok(Some(at(2)));
        assert_eq!(majority(&[Some(a()), None, None]), None);
        assert_eq!(majority(&[Some(a()), Some(b()), Some(a())]), Some(at(1)));
        assert_eq!(majority(&[Some(a()), None, Some(a())]), Some(at(1)));
        assert_eq!(majority(&[Some(a())]), Some(at(1)));
        assert_eq!(most_named(vec![b(), a(), a()], "m").unwrap(), at(1));
        assert_eq!(most_named(vec![b(), a()], "m").unwrap(), at(2));
        assert_eq!(most_named(vec![error(BrokerErrorKind::Timeout), Ok(None), b()], "m").unwrap(), at(2));
    }

    #[test]
    fn without_a_master_the_reason_is_the_one_that_will_not_pass() {
        let kind = |votes| most_named(votes, "m").unwrap_err().kind();
        let late = || error(BrokerErrorKind::Timeout);
        assert_eq!(kind(vec![Ok(None), late()]), BrokerErrorKind::Config);
        assert_eq!(kind(vec![late(), error(BrokerErrorKind::Denied)]), BrokerErrorKind::Denied);
        assert_eq!(kind(vec![late(), late()]), BrokerErrorKind::Timeout);
        assert_eq!(kind(Vec::new()), BrokerErrorKind::Unavailable);
    }

    #[test]
    fn an_address_is_two_texts_and_an_unknown_name_nothing() {
        let text = |text: &str| Value::BulkString(text.into());
        assert_eq!(read(Value::Array(vec![text("h"), text("1")])).unwrap(), Some(at(1)));
        assert_eq!(read(Value::Nil).unwrap(), None);
        assert!(read(Value::Array(vec![text("h"), text("x")])).is_err());
    }
}
