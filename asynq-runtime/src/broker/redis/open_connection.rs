//! Opens a connection to one server and logs in.

use std::{convert::Infallible, time::Duration};

use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, RedisError, aio::MultiplexedConnection};

use super::{
    super::{BrokerError, BrokerErrorKind},
    reply,
    socket::{OpenConnection, Socket},
    url::{Address, Login, Target, authenticated},
};

/// Returns the settings of a connection whose pushes `listener` receives.
pub(super) fn config(listener: Option<impl Fn(PushInfo) + Send + Sync + 'static>) -> AsyncConnectionConfig {
    let config = AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(256);
    let Some(listener) = listener else { return config };
    config.set_push_sender(move |push: PushInfo| {
        listener(push);
        Ok::<(), Infallible>(())
    })
}

/// Opens a connection, with TLS as `target` wants it, and logs in: with RESP3, or with RESP2 where the server refuses RESP3 and
/// `may_lack_resp3`. `listener` receives the pushes of RESP3. Calls `ended` when the driver of the connection has ended.
pub(super) async fn open_connection(
    address: &Address,
    target: &Target,
    login: &Login,
    mut listener: Option<impl Fn(PushInfo) + Send + Sync + 'static>,
    may_lack_resp3: bool,
    idle_timeout: Duration,
    ended: impl FnOnce() + Send + 'static,
) -> Result<(OpenConnection, ProtocolVersion), BrokerError> {
    // With RESP3 the login is read from the socket, as are the reasons of a server that ends TLS behind the handshake. With RESP2 the
    // first read is the driver's, which reports a closed connection alone.
    let mut protocol = ProtocolVersion::RESP3;
    loop {
        let socket = Socket::open(address, target.tls.as_ref()).await?;
        let progress = socket.progress();
        let opened = MultiplexedConnection::new_with_config(&login.at(protocol), socket, config(listener.take())).await;
        let is_refused = |error: &RedisError| reply::lacks_resp3(error) || reply::is_before_login(error);
        if may_lack_resp3 && protocol == ProtocolVersion::RESP3 && opened.as_ref().is_err_and(is_refused) {
            protocol = ProtocolVersion::RESP2;
            continue;
        }
        let (redis, driver) = opened.map_err(|error| match login.auth(ProtocolVersion::RESP2) {
            // The login has a password, so the server has not understood it.
            Some(_) if reply::is_before_login(&error) => reply::no_resp3(error),
            _ if matches!(address, Address::Tcp { .. }) && target.tls.is_none() => in_plain_text(error),
            _ => reply::failed(error),
        })?;
        let driver = async move {
            driver.await;
            ended();
        };
        let connection = OpenConnection::start(redis, driver, progress, idle_timeout);
        if let Some(auth) = login.auth(protocol) {
            authenticated(connection.exchange(&auth).await?)?;
        }
        return Ok((connection, protocol));
    }
}

/// Translates the error of a login in plain text. A server that takes TLS alone cuts the connection.
fn in_plain_text(error: RedisError) -> BrokerError {
    if !error.is_connection_dropped() {
        return reply::failed(error);
    }
    let message = "Redis cut the connection before the login: if it takes TLS alone, the URL begins with rediss";
    BrokerError::with_source(BrokerErrorKind::Unavailable, message, error)
}
