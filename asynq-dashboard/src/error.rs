//! Why a dashboard cannot be served, and how to correct the settings.

use std::{io, net::IpAddr};

/// A dashboard that cannot be served.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum DashboardError {
    /// Other machines could reach the dashboard, and no login is set.
    #[error(
        "the dashboard would be open to every client that reaches {address}: bind 127.0.0.1, or give it a login \
         (`.password_hash(..)`, `.bearer_token(..)` or `.trusted_header(..)`; for a worker ASYNQ_DASHBOARD_PASSWORD_HASH, \
         ASYNQ_DASHBOARD_TOKEN, or a file named by the same with _FILE)"
    )]
    NoLogin {
        /// The address.
        address: IpAddr,
    },
    /// The dashboard is mounted in an application, and no login is set.
    #[error(
        "the dashboard would be open to every client that reaches the application: give it a login (`.password_hash(..)`, \
         `.bearer_token(..)` or `.trusted_header(..)`), or say that the application has one: `.without_login()`"
    )]
    MountedWithoutLogin,
    /// The password hash is not a valid argon2 hash.
    #[error(
        "the password hash cannot be read: it must be one of argon2 in PHC form, as `argon2 SALT -id -e` writes it: \
         $argon2id$v=19$m=19456,t=2,p=1$…$…"
    )]
    PasswordHash,
    /// The bearer token is too short, has too few different characters, or has characters that a header cannot carry.
    #[error(
        "the bearer token must have at least 16 printable ASCII characters, 8 of them different, and no space, such as `openssl rand -hex 32` writes"
    )]
    Token,
    /// The trusted header is not a valid header name.
    #[error("`{name}` is not a valid header name")]
    Header {
        /// The given name.
        name: String,
    },
    /// The host is not valid.
    #[error(
        "`{host}` is not a host: write each name or address by itself, without scheme and path, such as jobs.example.com"
    )]
    Host {
        /// The given host.
        host: String,
    },
    /// The mount path is not valid.
    #[error("`{path}` is not a path to mount at: write one such as /jobs, of letters, digits and -_./ only")]
    Mount {
        /// The given path.
        path: String,
    },
    /// The address is not valid, or its name cannot be resolved.
    #[error("`{address}` is not an address to listen at: write one such as 127.0.0.1:8080, or a port alone")]
    Address {
        /// The given address.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {source}{}", remedy(.source))]
    Bind {
        /// The address.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// An environment variable or the file that it names cannot be used.
    #[error("{variable}: {reason}")]
    Variable {
        /// The variable.
        variable: &'static str,
        /// The reason.
        reason: String,
    },
}

debug_as_text!(DashboardError);

fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => {
            "; another program, such as another worker, or another setting of this one has the port: write another port"
        }
        io::ErrorKind::PermissionDenied => "; write a port of 1024 or more",
        _ => "",
    }
}
