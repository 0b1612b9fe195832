//! Reads replies of Redis in either version of the protocol, and translates its errors.

use chrono::{DateTime, Utc};
use redis::{ErrorKind, RedisError, ServerError, Value};

use super::{
    super::{BrokerError, BrokerErrorKind},
    missing_command::missing_command,
    tls,
};
use crate::task::{Extra, TaskId};

/// Returns the error of an answer that no version of the scripts gives.
pub(super) fn unexpected(detail: &str) -> BrokerError {
    BrokerError::new(
        BrokerErrorKind::Unexpected,
        format!(
            "Redis gave an answer that asynq does not understand ({detail}); \
             check for a proxy between this program and Redis"
        ),
    )
}

/// Returns the elements of an array; none for a nil.
pub(super) fn array(value: Value) -> Result<Vec<Value>, BrokerError> {
    match value {
        Value::Array(values) | Value::Set(values) => Ok(values),
        Value::Nil => Ok(Vec::new()),
        _ => Err(unexpected("no array")),
    }
}

/// Returns the bytes of a text; `None` for any other value.
pub(super) fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.into_bytes()),
        Value::Int(number) => Some(number.to_string().into_bytes()),
        Value::Double(number) => Some(number.to_string().into_bytes()),
        _ => None,
    }
}

/// Returns a text, in which bytes that are not UTF-8 are replaced.
pub(super) fn text(value: Value) -> Option<String> {
    let bytes = bytes(value)?;
    Some(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Returns the id of a task that a script wrote; `None` for an empty text, which a script writes where there is no task.
pub(super) fn id(text: String) -> Option<TaskId> {
    (!text.is_empty()).then(|| TaskId::from_wire(&text))
}

/// Returns a number, written as one or as text; fractions are cut off.
pub(super) fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Double(number) => Some(*number as i64),
        Value::BulkString(bytes) => {
            let text = std::str::from_utf8(bytes).ok()?;
            text.parse().ok().or_else(|| text.parse::<f64>().ok().map(|number| number as i64))
        }
        _ => None,
    }
}

/// Returns a number of things, as its type can hold it.
pub(super) fn count<N: TryFrom<i64>>(value: &Value) -> Option<N> {
    N::try_from(number(value)?).ok()
}

/// Returns the numbers of an answer that has so many.
pub(super) fn counts<T: TryFrom<i64>, const N: usize>(answer: Value) -> Result<[T; N], BrokerError> {
    let counts: Vec<T> = array(answer)?.iter().filter_map(count).collect();
    counts.try_into().map_err(|_| unexpected(&format!("not {N} numbers")))
}

/// Returns the extra facts of a task; none where the task has none.
pub(super) fn extra(value: Value) -> Extra {
    bytes(value).map(|stored| Extra::from_bytes(&stored)).unwrap_or_default()
}

/// Where a walk by `SCAN` or `SSCAN` begins.
pub(super) const BEGIN: &str = "0";

/// Reads an answer to `SCAN` or `SSCAN`: what this step found, and the cursor of the next one, `None` at the end.
pub(super) fn scanned(answer: Value) -> Result<(Vec<Value>, Option<String>), BrokerError> {
    let mut parts = array(answer)?.into_iter();
    let next = parts.next().and_then(text).ok_or_else(|| unexpected("no cursor"))?;
    Ok((array(parts.next().unwrap_or_default())?, (next != BEGIN).then_some(next)))
}

/// Returns the score of the only member of a `ZRANGE key 0 0 WITHSCORES`.
pub(super) fn only_score(value: Value) -> Option<i64> {
    let mut values = array(value).ok()?;
    let last = values.pop()?;
    match last {
        // RESP3 pairs member and score.
        Value::Array(pair) => number(pair.last()?),
        score => number(&score),
    }
}

/// Translates an error that Redis answered.
pub(super) fn refused(error: &ServerError) -> BrokerError {
    let (kind, message) = explain(error.code(), error.details().unwrap_or_default());
    caused(kind, message, error.clone().into())
}

/// Returns kind and text for an error that Redis answered.
fn explain(code: &str, details: &str) -> (BrokerErrorKind, String) {
    let code = self::code(code, details);
    let (kind, advice) = match missing_command(details) {
        Some(advice) if code == "ERR" => (BrokerErrorKind::Config, advice),
        _ => {
            let (kind, advice) = meaning(code);
            (kind, advice.to_owned())
        }
    };
    (kind, format!("Redis refused: {advice} ({code})"))
}

/// Returns whether the script was not run, or did nothing by its own account: a cluster moves its keys, has moved them or is down, the
/// server loads its data or runs the script of another client, or a message that the script needs is not there.
pub(super) fn was_not_run(error: &BrokerError) -> bool {
    // Where a cluster that is down answers reads, a script runs as far as its first write.
    matches!(code_of(error), Some("TRYAGAIN" | "MOVED" | "ASK" | "LOADING" | "BUSY"))
        || found_code(error) == Some("CLUSTERDOWN")
}

/// Returns whether the keys of the call are on their way to another node of the cluster.
pub(super) fn is_moving(error: &BrokerError) -> bool {
    code_of(error) == Some("TRYAGAIN")
}

/// Returns whether the script wrote nothing: it [`was_not_run`], or the server takes no writes now. Redis says that in place of
/// the first write of a script, and nothing changes it while the script runs.
pub(super) fn wrote_nothing(error: &BrokerError) -> bool {
    was_not_run(error) || matches!(found_code(error), Some("MISCONF" | "READONLY" | "NOREPLICAS" | "MASTERDOWN"))
}

/// Returns the code with which the server refused the call.
pub(super) fn code_of(error: &BrokerError) -> Option<&str> {
    cause(error)?.code()
}

/// Returns the code of the error, also where it is hidden in the text.
fn found_code(error: &BrokerError) -> Option<&str> {
    let cause = cause(error)?;
    Some(code(cause.code().unwrap_or_default(), cause.detail().unwrap_or_default()))
}

fn cause(error: &BrokerError) -> Option<&RedisError> {
    std::error::Error::source(error)?.downcast_ref()
}

/// Returns whether the server refuses a script on keys of several slots: it is a cluster, or stands before one.
pub(super) fn crosses_slots(error: &BrokerError) -> bool {
    code_of(error) == Some("CROSSSLOT")
}

/// Returns whether Redis refused the call because it cannot save its data.
pub(super) fn cannot_save(error: &BrokerError) -> bool {
    code_of(error) == Some("MISCONF")
}

const NO_RESP3: &str = "this server does not speak RESP3";

/// Translates an error that a server without RESP3 answers to the login.
pub(super) fn no_resp3(error: RedisError) -> BrokerError {
    BrokerError::with_source(BrokerErrorKind::Config, NO_RESP3, error)
}

/// Translates an error of the connection.
pub(super) fn failed(error: RedisError) -> BrokerError {
    if let Some(explained) = tls::explain(&error) {
        return explained;
    }
    let (kind, message) = match error.kind() {
        _ if error.is_timeout() => (BrokerErrorKind::Timeout, "Redis did not answer in time".to_owned()),
        _ if lacks_resp3(&error) => (BrokerErrorKind::Config, NO_RESP3.to_owned()),
        ErrorKind::Server(_) | ErrorKind::Extension => {
            explain(error.code().unwrap_or_default(), error.detail().unwrap_or_default())
        }
        ErrorKind::AuthenticationFailed => {
            (BrokerErrorKind::Denied, "Redis refused the login: check user and password in the URL".to_owned())
        }
        ErrorKind::InvalidClientConfig => (BrokerErrorKind::Config, "Redis cannot be reached this way".to_owned()),
        ErrorKind::Io => (BrokerErrorKind::Unavailable, "Redis cannot be reached, or cut the connection".to_owned()),
        _ => (BrokerErrorKind::Unexpected, "Redis gave an answer that cannot be read".to_owned()),
    };
    caused(kind, message, error)
}

/// Returns an error without its cause where that repeats the arguments of an unknown command: those of `HELLO` and `AUTH` contain the
/// password.
fn caused(kind: BrokerErrorKind, message: String, cause: RedisError) -> BrokerError {
    if cause.detail().unwrap_or_default().contains("with args beginning with") {
        return BrokerError::new(kind, message);
    }
    BrokerError::with_source(kind, message, cause)
}

/// Returns whether the server refuses RESP3. The redis crate recognises only one spelling of the refusal.
pub(super) fn lacks_resp3(error: &RedisError) -> bool {
    let details = error.detail().unwrap_or_default().to_ascii_lowercase();
    let is_refused = details.starts_with("unknown command") || details.starts_with("unsupported command");
    error.kind() == ErrorKind::RESP3NotSupported
        || error.code() == Some("NOPROTO")
        || is_refused && details.contains("hello")
}

/// Returns whether the server says no more than that a login comes first. Valkey 9 answers so to the login of RESP3 where it has no
/// `HELLO`; a wrong password has another error.
pub(super) fn is_before_login(error: &RedisError) -> bool {
    error.code() == Some("NOAUTH")
}

/// Returns the code of an error that came in place of an answer, also where a script of an old Redis hides it in the
/// text; `None` for anything else.
pub(super) fn error_code(value: &Value) -> Option<&str> {
    match value {
        Value::ServerError(error) => Some(code(error.code(), error.details().unwrap_or_default())),
        _ => None,
    }
}

/// Returns the error's code. Redis before 7 hides the code of an error inside a script in the text.
fn code<'e>(code: &'e str, details: &'e str) -> &'e str {
    // An error that a script of Redis 6.2 has caught begins with the place in the script.
    if code != "ERR" && !code.starts_with("@user_script") {
        return code;
    }
    // The script looked for a key that the move of its slot has taken away already.
    if details.contains("non local key") {
        return "TRYAGAIN";
    }
    // In place of the first write of a script, where a cluster that is down answers reads.
    if details.contains("while the cluster is down") {
        return "CLUSTERDOWN";
    }
    // A right that is missing for a command inside a script, in the words of Redis 6.2 and 7.0, and of 7.2.
    if details.contains("The user executing the script can't") || details.contains("ACL failure in script") {
        return "NOPERM";
    }
    // In answer to WAIT and WAITAOF.
    if details.contains("cannot be used with replica instances") {
        return "READONLY";
    }
    if details.starts_with("max number of clients") {
        return "MAXCLIENTS";
    }
    let mut words = details.split(|c: char| !c.is_ascii_uppercase());
    words.find(|word| meaning(word).0 != BrokerErrorKind::Unexpected).unwrap_or(code)
}

fn meaning(code: &str) -> (BrokerErrorKind, &'static str) {
    use BrokerErrorKind::{Config, Corrupt, Denied, Full, Unavailable, Unexpected};
    match code {
        "OOM" => (Full, "its memory is full: raise maxmemory or delete tasks"),
        "NOAUTH" => (Denied, "it asks for a password, and the URL has none"),
        "WRONGPASS" => (Denied, "check user and password in the URL"),
        "NOPERM" => (Denied, "the user lacks a permission: see ACL LOG"),
        "DENIED" => (Denied, "it is in protected mode: set a password, or allow other hosts in its configuration"),
        "MAXCLIENTS" => (Unavailable, "it has as many clients as its maxclients allows"),
        "LOADING" => (Unavailable, "it is still loading its data"),
        "READONLY" => (Unavailable, "it is a replica now"),
        "BUSY" => (Unavailable, "a script of another client keeps it busy"),
        "MASTERDOWN" | "NOREPLICAS" => (Unavailable, "its replication is not ready"),
        "MISCONF" => (Unavailable, "it cannot save its data and takes no writes: see its log"),
        "CLUSTERDOWN" => (Unavailable, "the cluster is down or waits for a failover: see CLUSTER INFO"),
        "TRYAGAIN" => (
            Unavailable,
            "the cluster is moving this queue; if no move is under way, one broke off: see redis-cli --cluster check",
        ),
        "MOVED" | "ASK" => {
            (Unavailable, "the cluster is moving this queue, or this is a node of it: then use a redis-cluster:// URL")
        }
        "CROSSSLOT" => (Config, "it is a cluster and the keys of a queue are not together"),
        "WRONGTYPE" => (Corrupt, "a key of this queue is of another type than asynq's"),
        _ => (Unexpected, "see the cause"),
    }
}

/// Returns the answer, or the translation of an error in its place.
pub(super) fn answer(value: Value) -> Result<Value, BrokerError> {
    match value {
        Value::ServerError(error) => Err(refused(&error)),
        value => Ok(value),
    }
}

/// Returns whether Redis does not know the script.
pub(super) fn is_noscript(value: &Value) -> bool {
    error_code(value) == Some("NOSCRIPT")
}

/// Returns whether a failover made this server a replica: its name, or the sentinels, may lead to the new master. A replica that
/// must not show old data refuses reads, too.
pub(super) fn is_demoted(value: &Value) -> bool {
    matches!(error_code(value), Some("READONLY" | "MASTERDOWN"))
}

pub(super) fn closed() -> BrokerError {
    BrokerError::new(BrokerErrorKind::Closed, "the broker was closed by this program")
}

/// Reads Redis's answer to `TIME`.
pub(super) fn time(value: &Value) -> Option<DateTime<Utc>> {
    let Value::Array(parts) = value else { return None };
    let (seconds, micros) = (number(parts.first()?)?, number(parts.get(1)?)?);
    DateTime::from_timestamp(seconds, u32::try_from(micros).ok()?.checked_mul(1000)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_that_became_a_replica_is_noticed_in_the_answers_of_old_and_new_servers() {
        let answer = |line: &str| redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        for demoted in [
            "READONLY You can't write against a read only replica.",
            "READONLY You can't write against a read only replica. script: a8b3, on @user_script:31.",
            "ERR Error running script (call to f_a8b3): @user_script:31: @user_script: 31: -READONLY You can't write \
             against a read only replica. ",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured \
             to be writable (which is not the default) writes to replicas are just local and are not propagated.",
        ] {
            assert!(is_demoted(&answer(demoted)), "{demoted}");
        }
        assert!(!is_demoted(&answer("ERR unknown command 'READ'")) && !is_demoted(&Value::Okay));
        assert!(is_noscript(&answer("NOSCRIPT No matching script. Please use EVAL.")) && !is_noscript(&Value::Okay));
    }

    #[test]
    fn a_server_that_refuses_resp3_is_known_by_each_spelling() {
        let refusal = |line: &str| {
            let Value::ServerError(error) = self::line(line) else { panic!("{line} is not an error") };
            RedisError::from(error)
        };
        for lacking in [
            "-NOPROTO unsupported protocol version",
            "-NOPROTO sorry, this protocol version is not supported",
            "-ERR unknown command 'HELLO', with args beginning with: '3'",
            "-ERR unsupported command 'hello'",
            "-ERR unsupported command: HELLO",
        ] {
            assert!(lacks_resp3(&refusal(lacking)), "{lacking}");
        }
        for other in ["-WRONGPASS invalid username-password pair", "-ERR unknown command 'AUTH'"] {
            assert!(!lacks_resp3(&refusal(other)), "{other}");
        }
    }

    #[test]
    fn errors_inside_scripts_of_old_and_new_servers_mean_the_same() {
        let old = "Error running script (call to f_1): @user_script:31: @user_script: 31: -OOM command not allowed \
                   when used memory > 'maxmemory'.";
        let cases = [
            ("OOM", "command not allowed when used memory > 'maxmemory'.", BrokerErrorKind::Full),
            ("ERR", old, BrokerErrorKind::Full),
            ("ERR", "unknown command 'RPOP'", BrokerErrorKind::Config),
            ("ERR", "value is not an integer or out of range", BrokerErrorKind::Unexpected),
            ("ERR", "Error running script: -READONLY You can't write", BrokerErrorKind::Unavailable),
            ("LOADING", "Redis is loading the dataset in memory", BrokerErrorKind::Unavailable),
            ("BUSY", "", BrokerErrorKind::Unavailable),
            ("MOVED", "1 h:1", BrokerErrorKind::Unavailable),
            ("ASK", "1 h:1", BrokerErrorKind::Unavailable),
            ("TRYAGAIN", "Multiple keys request during rehashing of slot", BrokerErrorKind::Unavailable),
            ("CLUSTERDOWN", "Hash slot not served", BrokerErrorKind::Unavailable),
            ("MASTERDOWN", "", BrokerErrorKind::Unavailable),
            ("READONLY", "", BrokerErrorKind::Unavailable),
            (
                "ERR",
                "Script attempted to access a non local key in a cluster node script: 1, on @user_script:1.",
                BrokerErrorKind::Unavailable,
            ),
            (
                "ERR",
                "Script attempted to execute a write command while the cluster is down and readonly script: 1, on \
                 @user_script:1.",
                BrokerErrorKind::Unavailable,
            ),
            ("CROSSSLOT", "", BrokerErrorKind::Config),
            ("WRONGPASS", "", BrokerErrorKind::Denied),
            ("NOAUTH", "", BrokerErrorKind::Denied),
            ("NOPERM", "", BrokerErrorKind::Denied),
            // Redis 7.0, 6.2 and 7.2, each inside a script.
            (
                "ERR",
                "The user executing the script can't run this command or subcommand script: 590a, on @user_script:1.",
                BrokerErrorKind::Denied,
            ),
            (
                "ERR",
                "The user executing the script can't access at least one of the keys mentioned in the command arguments \
                 script: 590a, on @user_script:1.",
                BrokerErrorKind::Denied,
            ),
            (
                "ERR",
                "Error running script (call to f_1): @user_script:1: @user_script: 1: The user executing the script can't \
                 run this command or subcommand",
                BrokerErrorKind::Denied,
            ),
            (
                "ERR",
                "ACL failure in script: User u has no permissions to run the 'del' command script: 590a, on @user_script:1.",
                BrokerErrorKind::Denied,
            ),
            // Redis 6.2, where a script returns the error that it caught.
            (
                "@user_script:",
                "196: The user executing the script can't run this command or subcommand",
                BrokerErrorKind::Denied,
            ),
            ("@user_script:", "12: -OOM command not allowed when used memory > 'maxmemory'.", BrokerErrorKind::Full),
            ("DENIED", "Redis is running in protected mode", BrokerErrorKind::Denied),
            ("ERR", "max number of clients reached", BrokerErrorKind::Unavailable),
            ("ERR", "max number of clients + cluster connections reached", BrokerErrorKind::Unavailable),
            ("WRONGTYPE", "", BrokerErrorKind::Corrupt),
        ];
        for (found, details, kind) in cases {
            assert_eq!(explain(found, details).0, kind, "{found} {details}");
        }
        // INFO tells the mode, but not every user.
        // A move that broke off leaves this answer until it is mended.
        assert!(explain("TRYAGAIN", "").1.contains("redis-cli --cluster check"));
        assert!(explain("MOVED", "1 h:1").1.contains("redis-cluster://"), "a URL of one server may lead to a node");
    }

    /// An answer as it comes from the socket.
    fn line(line: &str) -> Value {
        redis::parse_redis_value(format!("{line}\r\n").as_bytes()).unwrap()
    }

    #[test]
    fn a_code_is_found_where_redis_6_and_7_put_it() {
        // The errors of Redis 6.2 and 7.0 for a script of a connected client on a master that became a replica, and
        // their error for a plain command.
        let readonly_6 = "-ERR Error running script (call to f_a8b3): @user_script:31: @user_script: 31: -READONLY You \
                          can't write against a read only replica. ";
        let readonly_7 = "-READONLY You can't write against a read only replica. script: a8b3, on @user_script:31.";
        let cases = [
            (readonly_6, Some("READONLY")),
            (readonly_7, Some("READONLY")),
            ("-READONLY You can't write against a read only replica.", Some("READONLY")),
            ("-NOSCRIPT No matching script. Please use EVAL.", Some("NOSCRIPT")),
            ("-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", Some("MASTERDOWN")),
            (
                "-ERR Error running script (call to f_a8b3): @user_script:3: @user_script: 3: -CLUSTERDOWN The cluster \
                 is down",
                Some("CLUSTERDOWN"),
            ),
            (
                "-ERR Error running script (call to f_a8b3): @user_script:3: @user_script: 3: Lua script attempted to \
                 execute a write command while the cluster is down and readonly",
                Some("CLUSTERDOWN"),
            ),
            ("-ERR unknown command 'FOO'", Some("ERR")),
            ("+OK", None),
        ];
        for (answer, code) in cases {
            assert_eq!(error_code(&line(answer)), code, "{answer}");
        }
    }

    #[test]
    fn scores_are_read_from_both_protocols() {
        let member = || Value::BulkString(b"id".to_vec());
        let old = Value::Array(vec![member(), Value::BulkString(b"1700000000123".to_vec())]);
        let new = Value::Array(vec![Value::Array(vec![member(), Value::Double(1.5)])]);
        assert_eq!(only_score(old), Some(1_700_000_000_123));
        assert_eq!(only_score(new), Some(1));
        assert_eq!(only_score(Value::Array(Vec::new())), None);
    }

    #[test]
    fn an_answer_of_another_number_of_numbers_is_an_error() {
        let answer = || Value::Array(vec![Value::Int(3), Value::BulkString(b"4".to_vec())]);
        assert_eq!(counts::<u8, 2>(answer()).unwrap(), [3, 4]);
        assert!(counts::<u8, 3>(answer()).is_err() && counts::<u8, 1>(answer()).is_err());
    }

    #[test]
    fn a_time_that_cannot_be_read_is_none() {
        let bulk = |text: &str| Value::BulkString(text.into());
        assert_eq!(
            time(&Value::Array(vec![bulk("1700000000"), bulk("250000")])).map(|time| time.timestamp_millis()),
            Some(1_700_000_000_250)
        );
        assert_eq!(time(&Value::Array(vec![bulk("now")])), None);
        assert_eq!(time(&Value::Okay), None);
    }
}
