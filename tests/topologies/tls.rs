//! TLS: a server that cannot prove its name gets no data, and no connection falls back to plain text.

use asynq_runtime::broker::{
    Broker as _, BrokerErrorKind, Presence as _, Produce as _, Refused,
    redis::{RedisBroker, RedisOptions},
};
use asynq_tests::{Authority, TlsServer, eventually, soon, task, task_id};

use crate::topologies::connect;

const WHOLE: [(&str, &str); 3] = [("ca", "ca.pem"), ("cert", "client-cert.pem"), ("key", "client-key.pem")];

async fn refused(url: &str, kind: BrokerErrorKind, text: &str) {
    let error = connect(url).await.unwrap_err();
    assert_eq!(error.kind(), kind, "{url}: {error:?}");
    assert!(!error.is_unavailable(), "a retry does not help");
    assert!(error.to_string().contains(text), "{url}: {error}");
}

#[tokio::test]
async fn own_authority_and_client_certificate_let_us_in() {
    let server = TlsServer::start(&Authority::ours().server);
    let broker = connect(&server.url(&WHOLE)).await.unwrap();
    broker.enqueue(vec![task("t1")]).await.remove(0).unwrap();
    let mut cancellations = broker.cancellations().await.unwrap();
    broker.cancel(&task_id("t1")).await.unwrap();
    assert_eq!(soon(cancellations.next()).await.unwrap().as_str(), "t1");
    assert!(broker.location().starts_with("rediss://127.0.0.1:"), "{}", broker.location());
    let by_name = server.url(&WHOLE).replace("127.0.0.1", "localhost");
    connect(&by_name).await.unwrap().ping().await.unwrap();
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused() {
    let server = TlsServer::start(&Authority::ours().elsewhere);
    refused(&server.url(&WHOLE), BrokerErrorKind::Denied, "another host").await;
}

#[tokio::test]
async fn a_certificate_for_another_name_is_accepted_if_the_url_says_so_and_no_other() {
    let named = |server: &TlsServer, name: &str| format!("{}&tls_name={name}", server.url(&WHOLE));
    let server = TlsServer::start(&Authority::ours().elsewhere);
    let broker = connect(&named(&server, "elsewhere.example")).await.unwrap();
    broker.enqueue(vec![task("t1")]).await.remove(0).unwrap();
    assert!(!broker.location().contains("elsewhere"), "{}", broker.location());
    refused(&named(&server, "other.example"), BrokerErrorKind::Denied, "tls_name=").await;
    let server = TlsServer::start(&Authority::ours().server);
    refused(&named(&server, "elsewhere.example"), BrokerErrorKind::Denied, "another host").await;
}

/// Such as openssl makes unless it is told otherwise.
#[tokio::test]
async fn a_certificate_that_no_server_can_have_is_refused_with_the_one_to_make() {
    for signed in [&Authority::ours().own, &Authority::ours().nameless] {
        let server = TlsServer::start(signed);
        refused(&server.url(&WHOLE), BrokerErrorKind::Denied, "subjectAltName").await;
    }
}

#[tokio::test]
async fn a_certificate_that_signs_itself_is_accepted_where_the_url_names_it_as_the_authority() {
    let server = TlsServer::start(&Authority::ours().alone);
    refused(&server.url(&WHOLE), BrokerErrorKind::Denied, "ca=").await;
    connect(&server.url(&[("ca", "cert.pem"), WHOLE[1], WHOLE[2]])).await.unwrap();
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let server = TlsServer::start(&Authority::ours().expired);
    refused(&server.url(&WHOLE), BrokerErrorKind::Denied, "expired").await;
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused() {
    let server = TlsServer::start(&Authority::foreign().server);
    refused(&server.url(&WHOLE), BrokerErrorKind::Denied, "ca=").await;
    let server = TlsServer::start(&Authority::ours().server);
    // The system trusts neither this authority nor the stranger's.
    refused(&server.url(&WHOLE[1..]), BrokerErrorKind::Denied, "ca=").await;
    let wrong = [("ca", "stranger.pem"), WHOLE[1], WHOLE[2]];
    refused(&server.url(&wrong), BrokerErrorKind::Denied, "ca=").await;
}

#[tokio::test]
async fn without_the_right_client_certificate_the_server_refuses() {
    let server = TlsServer::start(&Authority::ours().server);
    refused(&server.url(&WHOLE[..1]), BrokerErrorKind::Denied, "cert=").await;
    let strange = [WHOLE[0], ("cert", "stranger-cert.pem"), ("key", "stranger-key.pem")];
    refused(&server.url(&strange), BrokerErrorKind::Denied, "cert=").await;
    // The server takes a sentinel's place: it refuses before a question.
    let sentinel = server.url(&WHOLE[..1]).replace("rediss://", "rediss-sentinel://") + "&master=m";
    refused(&sentinel, BrokerErrorKind::Denied, "cert=").await;
    server.set(&["tls-protocols", "TLSv1.2"]);
    refused(&server.url(&WHOLE[..1]), BrokerErrorKind::Denied, "cert=").await;
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_by_their_parameter() {
    let server = TlsServer::start(&Authority::ours().server);
    let config = BrokerErrorKind::Config;
    refused(&server.url(&[("ca", "not-there.pem")]), config, "`ca`").await;
    refused(&server.url(&[("ca", "empty.pem")]), config, "`ca`").await;
    refused(&server.url(&[WHOLE[0], ("cert", "empty.pem"), WHOLE[2]]), config, "`cert`").await;
    refused(&server.url(&[WHOLE[0], WHOLE[1], ("key", "empty.pem")]), config, "`key`").await;
    let mixed = [WHOLE[0], WHOLE[1], ("key", "stranger-key.pem")];
    refused(&server.url(&mixed), config, "together").await;
}

#[tokio::test]
async fn plain_text_and_tls_are_never_mistaken_for_each_other() {
    let server = TlsServer::start(&Authority::ours().server);
    let plain = format!("redis://127.0.0.1:{}", server.port());
    let error = connect(&plain).await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("begins with rediss"), "{error}");

    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, ca) = (silent.local_addr().unwrap().port(), server.file("ca.pem"));
    let error =
        connect(&format!("rediss://127.0.0.1:{port}?connect_timeout=50ms&ca={}", ca.display())).await.unwrap_err();
    assert!(error.to_string().contains("on a port without TLS"), "{error}");

    let unprotected = asynq_tests::RedisServer::start(asynq_tests::Persistence::None);
    let url = format!("rediss://127.0.0.1:{}?ca={}", unprotected.port(), ca.display());
    // A plain Redis may not answer at all, so this connection has a program's timeout.
    let error = RedisBroker::connect(&url, RedisOptions::default()).await.unwrap_err();
    // A plain redis-server takes the greeting for a command and does not answer, or closes the connection; both are errors.
    assert!(
        ["TLS on this port", "on a port without TLS"].iter().any(|text| error.to_string().contains(text)),
        "{error}"
    );
    let keys: i64 = redis::cmd("DBSIZE").query(&mut unprotected.connection()).unwrap();
    assert_eq!(keys, 0);
}

#[tokio::test]
async fn a_program_that_runs_is_refused_while_the_certificate_is_expired_and_goes_on_once_it_is_renewed() {
    let server = TlsServer::start(&Authority::ours().server);
    let broker = connect(&server.url(&WHOLE)).await.unwrap();
    server.show(&Authority::ours().expired);
    server.cut();
    let put = async || broker.enqueue(vec![task("t1")]).await.remove(0);
    let refused = eventually("an enqueue is refused", async || put().await.err()).await;
    let Refused::Broker(error) = &refused else { panic!("{refused:?}") };
    assert_eq!(error.kind(), BrokerErrorKind::Denied, "{error:?}");
    server.show(&Authority::ours().server);
    eventually("an enqueue is stored", async || put().await.ok()).await;
}

#[tokio::test]
async fn a_renewed_certificate_is_accepted_on_the_next_connection_and_a_bad_one_refused() {
    let server = TlsServer::start(&Authority::ours().server);
    connect(&server.url(&WHOLE)).await.unwrap();
    server.show(&Authority::ours().expired);
    refused(&server.url(&WHOLE), BrokerErrorKind::Denied, "expired").await;
    server.show(&Authority::ours().server);
    connect(&server.url(&WHOLE)).await.unwrap();
}
