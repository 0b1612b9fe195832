//! Builds a dashboard into a router, or into a server of its own.

use std::{
    future::Future,
    net::{IpAddr, Ipv6Addr},
};

use asynq_runtime::{Client, Registry};
use axum::{Router, http::HeaderName};
use futures_util::FutureExt as _;
use tokio::net::TcpListener;

use crate::{
    error::DashboardError,
    host::{self, Hosts},
    login::{Cookie, Login, Password, Token, Trusted},
    route::RouteInfo,
    router,
    serve::{self, Bound},
    state::{AppState, Config, Stopping},
};

/// A dashboard over the broker of one client.
///
/// ```no_run
/// use asynq_dashboard::Dashboard;
/// use asynq_runtime::prelude::*;
///
/// # async fn serve() -> Result<(), BoxError> {
/// let client = Client::from_env().await?;
/// // Mounted in an application of one's own:
/// let dashboard = Dashboard::new(&client)
///     .mount("/jobs")
///     .allow_host("example.com")
///     .password_hash(std::env::var("JOBS_PASSWORD_HASH")?)
///     .router()?;
/// let app: axum::Router = axum::Router::new().merge(dashboard);
/// # Ok(())
/// # }
/// ```
#[must_use = "a dashboard does nothing until it is mounted or served"]
#[derive(Clone)]
pub struct Dashboard {
    client: Client,
    registry: Option<Registry>,
    config: Config,
    hosts: Vec<String>,
    host_flag: Option<&'static str>,
    password_hash: Option<String>,
    token: Option<String>,
    header: Option<String>,
    proxies: Vec<IpAddr>,
    without_login: bool,
    stopping: Stopping,
}

impl Dashboard {
    /// Creates a dashboard over the broker of this client.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            registry: None,
            config: Config {
                title: "asynq".to_owned(),
                read_only: false,
                mount: String::new(),
                observed_only: false,
                queue_metrics: true,
            },
            hosts: Vec::new(),
            host_flag: None,
            password_hash: None,
            token: None,
            header: None,
            proxies: Vec::new(),
            without_login: false,
            stopping: std::future::pending().boxed().shared(),
        }
    }

    /// Sets the title above every page; default `asynq`.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.config.title = title.into();
        self
    }

    /// Sets whether nothing can be changed; default no. A read-only dashboard refuses every change.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.config.read_only = read_only;
        self
    }

    /// Sets the jobs that this program knows, so that their arguments are readable where they are not JSON.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Sets the path at which the dashboard is mounted: every route and link begins with it. Default: empty, which is the root.
    pub fn mount(mut self, path: impl Into<String>) -> Self {
        self.config.mount = path.into();
        self
    }

    /// Answers to this host name too, besides the names of this machine. May be called several times; a pattern with a `*` is an
    /// error.
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Sets the flag by which the user of this program allows a host name, such as `--allow-host`: the refusal of
    /// another name mentions the flag. Without a flag the refusal names [`allow_host`](Self::allow_host).
    #[doc(hidden)]
    pub fn host_flag(mut self, flag: &'static str) -> Self {
        self.host_flag = Some(flag);
        self
    }

    /// Lets people log in with the password of this argon2 hash, in PHC form. After 5 wrong passwords they have to
    /// wait. A session lasts 12 hours without a request and 7 days at most, and ends with the process.
    pub fn password_hash(mut self, hash: impl Into<String>) -> Self {
        self.password_hash = Some(hash.into());
        self
    }

    /// Lets programs log in with `Authorization: Bearer TOKEN`, which a browser cannot send: people need a password or a trusted
    /// header. The token has at least 16 characters, 8 of them different. After 5 wrong tokens their address has to wait, up to
    /// 10 seconds for each.
    pub fn bearer_token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Logs a request with this header in, as the user that the header names: for a proxy that sets the header itself
    /// and drops it from incoming requests. The header is accepted if it comes once, and from this machine or from an
    /// address that was named by [`trust_proxy`](Self::trust_proxy); from elsewhere the request is refused. Every
    /// program on this machine can send the header.
    ///
    /// A dashboard that is mounted in an application needs the address of the peer: serve the application with axum's
    /// `into_make_service_with_connect_info::<SocketAddr>()`.
    pub fn trusted_header(mut self, name: impl Into<String>) -> Self {
        self.header = Some(name.into());
        self
    }

    /// Accepts the [`trusted_header`](Self::trusted_header) of connections from this address too, besides those from
    /// this machine. May be called several times.
    pub fn trust_proxy(mut self, address: impl Into<IpAddr>) -> Self {
        self.proxies.push(address.into());
        self
    }

    /// Lets [`router`](Self::router) do without a login: the application that it is mounted in admits only users that
    /// may see and change everything.
    pub fn without_login(mut self) -> Self {
        self.without_login = true;
        self
    }

    /// Serves `/metrics`, `/stats`, `/healthz` and `/readyz` alone; `/stats` has names of queues, jobs and hosts, and the ids of tasks
    /// that run. They may be bound to any address, and answer to any host name unless that address is one of this machine alone, which a
    /// web page in a browser could reach under its own name. The first two need the bearer token if there is one, and no other login
    /// counts: without a token every client that reaches the port reads them.
    pub fn observed_only(mut self) -> Self {
        self.config.observed_only = true;
        self
    }

    /// Sets whether `/metrics` has the numbers of all queues besides this program's own metrics. Default: yes. The numbers are
    /// equal wherever they are read, and each scrape reads all queues, so one place of a deployment is enough.
    pub fn queue_metrics(mut self, queues: bool) -> Self {
        self.config.queue_metrics = queues;
        self
    }

    /// Ends the event streams of open pages when `stopping` is ready. A server that lets open requests finish before it ends, as
    /// axum's does `with_graceful_shutdown`, would wait for them up to 10 minutes. A dashboard that is [`bind`](Self::bind)ed
    /// ends them by itself.
    pub fn stopping(mut self, stopping: impl Future<Output = ()> + Send + 'static) -> Self {
        self.stopping = stopping.boxed().shared();
        self
    }

    /// Returns the routes with the callers that may use them, for tests of them all.
    #[doc(hidden)]
    pub fn routes(&self) -> Vec<RouteInfo> {
        router::table(self.config.observed_only).into_iter().map(|route| route.info).collect()
    }

    /// Returns the router, to merge into that of an application. Its paths begin with [`mount`](Self::mount). Wrong
    /// logins are counted by address where the application is served with axum's
    /// `into_make_service_with_connect_info::<SocketAddr>()`, and all together otherwise.
    ///
    /// This call installs the recorder of the process's metrics, as the start of a server does, unless there is one: a program with a
    /// recorder of its own installs it before.
    ///
    /// # Errors
    ///
    /// There is neither a login nor [`without_login`](Self::without_login), or a setting is not valid.
    pub fn router(self) -> Result<Router, DashboardError> {
        if !self.without_login && !self.config.observed_only && !self.has_login() {
            return Err(DashboardError::MountedWithoutLogin);
        }
        let hosts_any = self.config.observed_only;
        Ok(router::router(&self.build(hosts_any, None)?, false))
    }

    /// Listens at `address`, such as `127.0.0.1:8080`; a port alone is one of 127.0.0.1, and port 0 any free one.
    ///
    /// # Errors
    ///
    /// Other machines could reach the dashboard and there is no login, a setting is not valid, or the address is taken.
    pub async fn bind(mut self, address: &str) -> Result<Bound, DashboardError> {
        let addresses = serve::resolve(address).await?;
        if !self.config.observed_only
            && !self.has_login()
            && let Some(open) = addresses.iter().find(|address| !address.ip().is_loopback())
        {
            return Err(DashboardError::NoLogin { address: open.ip() });
        }
        // A request to the address itself has no foreign host name.
        for address in addresses.iter().filter(|address| !address.ip().is_unspecified()) {
            self.hosts.push(address.to_string());
        }
        let is_local = addresses.iter().all(|address| address.ip().is_loopback());
        let hosts_any = self.config.observed_only && !is_local;
        let failed = |source| DashboardError::Bind { address: address.to_owned(), source };
        let listener = TcpListener::bind(&*addresses).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Bound::new(listener, address, self.build(hosts_any, Some(address.port()))?))
    }

    /// Listens at `address` and serves until the future is dropped.
    ///
    /// # Errors
    ///
    /// The errors of [`bind`](Self::bind).
    pub async fn serve(self, address: &str) -> Result<(), DashboardError> {
        self.bind(address).await?.serve_until(std::future::pending()).await;
        Ok(())
    }

    fn has_login(&self) -> bool {
        self.password_hash.is_some() || self.token.is_some() || self.header.is_some()
    }

    /// Returns the state of a dashboard that has this port to itself, or of one that is mounted in an application.
    fn build(self, hosts_any: bool, port: Option<u16>) -> Result<AppState, DashboardError> {
        let is_whole = !self.config.observed_only;
        let password = self.password_hash.filter(|_| is_whole);
        let password = password.map(|hash| Password::new(&hash).ok_or(DashboardError::PasswordHash)).transpose()?;
        let token = self.token.map(|token| Token::new(token).ok_or(DashboardError::Token)).transpose()?;
        if is_whole && self.header.is_none() && !self.proxies.is_empty() {
            log!(warn, "`trust_proxy` (ASYNQ_DASHBOARD_TRUSTED_PROXIES) has no effect without `trusted_header`");
        }
        let header = self.header.filter(|_| is_whole);
        let header = header.map(|name| name.parse::<HeaderName>().map_err(|_| DashboardError::Header { name }));
        let header = header.transpose()?.map(|name| Trusted { name, proxies: self.proxies });
        let mount = mount(&self.config.mount)?;
        let login = Login::new(password, token, header, Cookie::new(port, &mount));
        // A host of a request is compared as a whole, so a pattern would match none.
        let name_of = |host: &str| match host.parse::<Ipv6Addr>() {
            // As requests write it. Kubernetes gives the address of a pod without brackets.
            Ok(address) => Some(format!("[{address}]")),
            Err(_) => host::name_of(host).filter(|name| !name.contains('*')),
        };
        let allowed = self.hosts.into_iter().map(|host| name_of(&host).ok_or(DashboardError::Host { host }));
        let allowed = allowed.collect::<Result<_, _>>()?;
        let hosts = if hosts_any { Hosts::Any } else { Hosts::Only { allowed, flag: self.host_flag } };
        let config = Config { mount, ..self.config };
        Ok(AppState::new(self.client, self.registry, config, hosts, login, self.stopping))
    }
}

/// Returns the mount path without its last slash.
fn mount(path: &str) -> Result<String, DashboardError> {
    let trimmed = path.trim_end_matches('/');
    let is_fit = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let is_path = trimmed.is_empty()
        || (trimmed.starts_with('/')
            && trimmed.chars().all(is_fit)
            && trimmed[1..].split('/').all(|part| !matches!(part, "" | "." | "..")));
    if is_path { Ok(trimmed.to_owned()) } else { Err(DashboardError::Mount { path: path.to_owned() }) }
}

partial_debug!(Dashboard { client, config, hosts, .. });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_a_plain_path() {
        for (path, expected) in [
            ("", Some("")),
            ("/", Some("")),
            ("/jobs", Some("/jobs")),
            ("/jobs/", Some("/jobs")),
            ("/a/b-c", Some("/a/b-c")),
        ] {
            assert_eq!(mount(path).ok().as_deref(), expected, "{path}");
        }
        for bad in ["jobs", "/{x}", "/a b", "/a//b", "/../x", "/ä", "/a;x", "//evil.example"] {
            assert!(mount(bad).is_err(), "{bad}");
        }
    }
}
