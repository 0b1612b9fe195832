use std::time::Duration;

use super::{
    super::{RedisOptions, durability::Durability},
    *,
};
use crate::censor::without_passwords;

fn at(host: &str, port: u16) -> Address {
    Address::Tcp { host: host.into(), port }
}

fn login(user: Option<&str>, password: Option<&str>) -> Login {
    Login { user: user.map(Into::into), password: password.map(Into::into) }
}

fn target(endpoints: Endpoints, user: Option<&str>, password: Option<&str>, db: i64) -> Target {
    Target { endpoints, login: login(user, password), tls: None, db }
}

fn parse(url: &str) -> Result<Target, BrokerError> {
    Target::parse(url, RedisOptions::default()).map(|(target, _)| target)
}

fn tcp(host: &str, port: u16, user: Option<&str>, password: Option<&str>, db: i64) -> Target {
    target(Endpoints::One(at(host, port)), user, password, db)
}

fn unix(path: &str, user: Option<&str>, password: Option<&str>, db: i64) -> Target {
    target(Endpoints::One(Address::Unix(path.into())), user, password, db)
}

#[test]
fn every_form_of_url_is_read() {
    let cases = [
        ("redis://localhost", tcp("localhost", 6379, None, None, 0)),
        ("redis://localhost:6380/3", tcp("localhost", 6380, None, None, 3)),
        ("redis://localhost/", tcp("localhost", 6379, None, None, 0)),
        ("redis://:pw@h:1/2", tcp("h", 1, None, Some("pw"), 2)),
        ("redis://u:p%40%2F%25@h", tcp("h", 6379, Some("u"), Some("p@/%"), 0)),
        ("redis://u:p@ss@h", tcp("h", 6379, Some("u"), Some("p@ss"), 0)),
        ("redis://[::1]:7/1", tcp("::1", 7, None, None, 1)),
        ("redis://h?db=4&user=u&pass=p", tcp("h", 6379, Some("u"), Some("p"), 4)),
        ("redis+unix:///run/r.sock", unix("/run/r.sock", None, None, 0)),
        ("redis+unix:///run/r%20s.sock?db=2&user=u&pass=%25", unix("/run/r s.sock", Some("u"), Some("%"), 2)),
        ("redis-socket://:pw@/run/r.sock?db=5", unix("/run/r.sock", None, Some("pw"), 5)),
    ];
    for (url, expected) in cases {
        let target = parse(url).unwrap();
        assert!(target == expected, "{url} was read as {target}");
    }
}

#[cfg(feature = "cluster")]
#[test]
fn a_cluster_is_named_by_some_of_its_nodes() {
    let nodes = Endpoints::Cluster(vec![at("a", 7000), at("b", 6379), at("::1", 7)]);
    let read = parse("redis-cluster://u:p@a:7000,b,[::1]:7").unwrap();
    assert!(read == target(nodes, Some("u"), Some("p"), 0), "{read}");
    assert_eq!(read.to_string(), "redis-cluster://u@a:7000,b:6379,[::1]:7");
    assert!(parse("redis-cluster://a/0").is_ok());
    assert!(parse("redis-cluster://a/1").unwrap_err().to_string().contains("database 0"));
}

#[cfg(feature = "sentinel")]
#[test]
fn sentinels_are_named_with_the_master_and_two_logins() {
    let url = "redis-sentinel://u:p@a:1,b/3?master=m%20y&sentinel_user=su&sentinel_pass=sp";
    let sentinels =
        Sentinels { at: vec![at("a", 1), at("b", 26379)], master: "m y".into(), login: login(Some("su"), Some("sp")) };
    let read = parse(url).unwrap();
    assert!(read == target(Endpoints::Sentinel(sentinels), Some("u"), Some("p"), 3), "{read}");
    assert_eq!(read.to_string(), "redis-sentinel://u@a:1,b:26379/3?master=m y");
    for (url, expected) in [
        ("redis-sentinel://a", "names the master"),
        ("redis-sentinel://a?master=", "names the master"),
        ("redis-sentinel://a?master=m&sentinel_user=x", "sentinel_pass"),
        ("redis-sentinel://?master=m", "no host"),
        ("redis://a?master=m", "redis-sentinel://"),
    ] {
        let error = parse(url).unwrap_err().to_string();
        assert!(error.contains(expected), "{url}: {error}");
    }
}

#[cfg(feature = "tls")]
#[test]
fn tls_takes_an_authority_and_a_certificate_of_its_own() {
    for url in [
        "rediss://h?ca=/ca.pem&cert=/c.pem&key=/k.pem",
        "rediss://h:1/2",
        "rediss://h?ca=/ca%20s.pem",
        "rediss://h?tls_name=redis.example",
        "rediss://h?tls_name=10.0.0.1",
    ] {
        let read = parse(url).unwrap();
        assert!(read.tls.is_some() && read.to_string().starts_with("rediss://h"), "{url}: {read}");
    }
    for (url, expected) in [
        ("rediss://h?cert=/c.pem", "cert and key"),
        ("rediss://h?key=/k.pem", "cert and key"),
        ("redis://h?ca=/ca.pem", "rediss://"),
        ("redis+unix:///s?ca=/ca.pem", "rediss://"),
        ("redis://h?tls_name=redis.example", "rediss://"),
        ("rediss://h?tls_name=", "tls_name"),
        ("rediss://h?tls_name=can%20ary", "a host name or an IP address"),
    ] {
        let error = parse(url).unwrap_err();
        assert_eq!(error.kind(), BrokerErrorKind::Config);
        assert!(error.to_string().contains(expected), "{url}: {error}");
        assert!(!format!("{error:?}").contains("can ary"), "{error:?}");
    }
}

#[cfg(not(feature = "tls"))]
#[test]
fn without_the_feature_tls_is_refused_by_its_name() {
    for url in ["rediss://:canary@h", "rediss://h?ca=/ca.pem"] {
        let error = parse(url).unwrap_err();
        assert_eq!(error.kind(), BrokerErrorKind::Config);
        assert!(error.to_string().contains("feature `tls`"), "{error}");
    }
}

#[test]
fn options_are_read() {
    let six = Duration::from_secs(6);
    let options = |url: &str| Target::parse(url, RedisOptions { lease: six, ..RedisOptions::default() }).unwrap().1;
    let ten = Duration::from_secs(10);
    assert_eq!(options("redis://h").lease, six, "as the program has it");
    assert_eq!(options("redis://h?lease=10s").lease, ten);
    let far = options("redis://h?timeout=10s&connect_timeout=250ms");
    assert_eq!((far.call_timeout, far.connect_timeout), (ten, Duration::from_millis(250)));
    assert!(options("redis://h?allow_eviction=true").allow_eviction);
    let replicas = |n, timeout| Durability::Replicas { n, timeout };
    assert_eq!(options("redis://h").durability, Durability::Async);
    assert_eq!(options("redis://h?durability=replicas(2)").durability, replicas(2, Duration::from_secs(1)));
    assert_eq!(options("redis://h?durability_timeout=10s&durability=replicas(1)").durability, replicas(1, ten));
    assert_eq!(
        options("redis://h?durability=fsync&durability_timeout=10s").durability,
        Durability::Fsync { timeout: ten }
    );
}

#[test]
fn the_error_of_an_invalid_url_has_the_reason_and_hides_the_password() {
    let cases = [
        ("canary", "redis://"),
        ("http://u:canary@h", "scheme"),
        ("redis://:canary@", "host"),
        ("redis://h:canary", "port"),
        ("redis://:canary@[::1]6380", "a colon goes before the port"),
        ("redis://:canary@h/one", "database"),
        ("redis://:can/canary@h", "in a password, / is written as %2F"),
        ("redis://:can?canary@h", "in a password, ? is written as %3F"),
        ("redis://:canary@h/-1", "database"),
        ("redis://canary@h", "no password"),
        ("redis://:correct canary@h", "write %20 for a blank"),
        ("redis+unix:///s?pass=correct\tcanary", "write %20 for a blank"),
        ("redis://:canary%zz@h", "in a password, % is written as %25"),
        ("redis://:canary@h?canary=1", "parameter"),
        ("redis://:canary@h?lease=soon", "lease"),
        ("redis://:canary@h?lease=2500ms", "lease"),
        ("redis://:canary@h?lease=1s", "2s to 1h"),
        ("redis://:canary@h?timeout=canary", "?timeout=3s"),
        ("redis://:canary@h?connect_timeout=2h", "?timeout=3s"),
        ("redis://:canary@h?allow_eviction=canary", "true or false"),
        ("redis://:canary@h?durability=canary", "replicas(N)"),
        ("redis://:canary@h?durability=replicas(0)", "replicas(N)"),
        ("redis://:canary@h?durability_timeout=1s", "needs durability"),
        ("redis://:canary@h?durability=fsync&durability_timeout=2h", "1ms to 1m"),
        ("redis+unix://host/canary.sock", "three slashes"),
        ("redis+unix://", "path"),
        ("redis://[::1", "bracket"),
    ];
    for (url, expected) in cases {
        let error = parse(url).unwrap_err();
        assert_eq!(error.kind(), BrokerErrorKind::Config);
        assert!(error.to_string().contains(expected), "{url}: {error}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{url}: {error:?}");
        // Programs print errors without passwords, and an example would lose what stands in place of one.
        assert_eq!(without_passwords(&error.to_string()), error.to_string());
    }
}

#[test]
fn no_text_of_a_target_shows_the_password() {
    let mut urls = vec!["redis://u:canary@h:1/2", "redis://:canary@[::1]", "redis+unix:///s?pass=canary"];
    if cfg!(feature = "sentinel") {
        urls.push("redis-sentinel://u:canary@h?master=m&sentinel_pass=canary");
    }
    for url in urls {
        let target = parse(url).unwrap();
        let info = target.login.at(ProtocolVersion::RESP3);
        assert!(!format!("{target} {target:?} {info:?} {:?} {:?}", target.endpoints, target.login).contains("canary"));
    }
    assert_eq!(parse("redis://u:pw@h:1/2").unwrap().to_string(), "redis://u@h:1/2");
}
