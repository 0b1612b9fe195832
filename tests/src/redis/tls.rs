//! A server that speaks TLS only, with certificates made for this run of the tests.

use std::{
    fs,
    path::PathBuf,
    sync::{Mutex, OnceLock},
};

use ::redis::Connection;
use asynq_test_support::{Guarded, free_port, on_free_ports};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};

use super::Servers;

/// A certificate authority and certificates that it signed; all in PEM.
#[derive(Debug)]
pub struct Authority {
    /// The authority's own certificate.
    pub ca: String,
    /// Valid for `127.0.0.1` and `localhost`.
    pub server: Signed,
    /// Valid for `elsewhere.example` alone.
    pub elsewhere: Signed,
    /// Valid for the right host, but until the end of 2020.
    pub expired: Signed,
    /// Names its host as its common name alone.
    pub nameless: Signed,
    /// The authority's own certificate for the right host, in place of one that it signed.
    pub own: Signed,
    /// Signs itself, and is not that of an authority.
    pub alone: Signed,
    /// A certificate for a client.
    pub client: Signed,
}

/// A certificate with its key.
#[derive(Debug)]
pub struct Signed {
    /// The certificate.
    pub cert: String,
    /// The private key of the certificate.
    pub key: String,
}

impl Authority {
    /// The authority that the tests trust.
    pub fn ours() -> &'static Self {
        static OURS: OnceLock<Authority> = OnceLock::new();
        OURS.get_or_init(|| Self::new("asynq tests"))
    }

    /// An authority that no test trusts.
    pub fn foreign() -> &'static Self {
        static FOREIGN: OnceLock<Authority> = OnceLock::new();
        FOREIGN.get_or_init(|| Self::new("somebody"))
    }

    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.subject_alt_names = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().subject_alt_names;
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let own = Signed { cert: issuer.pem(), key: issuer.key().serialize_pem() };
        let (mut alone, key) =
            (CertificateParams::new(["127.0.0.1".to_owned()]).unwrap(), KeyPair::generate().unwrap());
        alone.is_ca = IsCa::ExplicitNoCa;
        let sign = |hosts: &[&str], last_year: Option<i32>| {
            let mut params = CertificateParams::new(hosts.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
            if let Some(year) = last_year {
                (params.not_before, params.not_after) = (date_time_ymd(year, 1, 1), date_time_ymd(year, 12, 31));
            }
            let key = KeyPair::generate().unwrap();
            let cert = params.signed_by(&key, &issuer).unwrap();
            Signed { cert: cert.pem(), key: key.serialize_pem() }
        };
        Self {
            server: sign(&["127.0.0.1", "localhost"], None),
            elsewhere: sign(&["elsewhere.example"], None),
            expired: sign(&["127.0.0.1", "localhost"], Some(2020)),
            nameless: sign(&[], None),
            own,
            alone: Signed { cert: alone.self_signed(&key).unwrap().pem(), key: key.serialize_pem() },
            client: sign(&["client"], None),
            ca: issuer.pem(),
        }
    }
}

/// A redis-server on a TLS port that asks clients for a certificate of our authority.
#[derive(Debug)]
pub struct TlsServer {
    server: Guarded,
    port: u16,
}

impl TlsServer {
    /// Starts a server that shows this certificate.
    pub fn start(signed: &Signed) -> Self {
        let ours = Authority::ours();
        let files = [
            ("ca.pem", ours.ca.as_str()),
            ("stranger.pem", &Authority::foreign().ca),
            ("cert.pem", &signed.cert),
            ("key.pem", &signed.key),
            ("client-cert.pem", &ours.client.cert),
            ("client-key.pem", &ours.client.key),
            ("stranger-cert.pem", &Authority::foreign().client.cert),
            ("stranger-key.pem", &Authority::foreign().client.key),
            ("empty.pem", ""),
        ];
        on_free_ports(|| {
            let port = free_port();
            let server = Guarded::start(&files, |folder| {
                let file = |name: &str| folder.join(name).display().to_string();
                let mut arguments = ["--port", "0", "--tls-port", &port.to_string()].map(str::to_owned).to_vec();
                for (option, name) in
                    [("--tls-cert-file", "cert.pem"), ("--tls-key-file", "key.pem"), ("--tls-ca-cert-file", "ca.pem")]
                {
                    arguments.extend([option.to_owned(), file(name)]);
                }
                arguments
            })?;
            Some(Self { server, port })
        })
    }

    /// A file beside the server: `ca.pem`, `client-cert.pem`, `client-key.pem`, `stranger….pem`, `empty.pem`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.server.folder().join(name)
    }

    /// The port, which accepts TLS only.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL with these parameters, whose values are names of files.
    pub fn url(&self, parameters: &[(&str, &str)]) -> String {
        self.url_for("", parameters)
    }

    fn url_for(&self, login: &str, parameters: &[(&str, &str)]) -> String {
        let parameters: Vec<String> =
            parameters.iter().map(|(name, file)| format!("{name}={}", self.file(file).display())).collect();
        format!("rediss://{login}127.0.0.1:{}/0?{}", self.port, parameters.join("&"))
    }

    /// Makes the server show another certificate from now on.
    pub fn show(&self, signed: &Signed) {
        fs::write(self.file("cert.pem"), &signed.cert).unwrap();
        fs::write(self.file("key.pem"), &signed.key).unwrap();
        let file = |name: &str| self.file(name).display().to_string();
        self.set(&["tls-cert-file", &file("cert.pem"), "tls-key-file", &file("key.pem")]);
    }

    /// Cuts the connections of all programs.
    pub fn cut(&self) {
        ::redis::cmd("CLIENT").arg(&["KILL", "TYPE", "normal"]).exec(&mut self.server.connection()).unwrap();
    }

    /// Changes settings of the server: names, each with its value.
    pub fn set(&self, settings: &[&str]) {
        ::redis::cmd("CONFIG").arg("SET").arg(settings).exec(&mut self.server.connection()).unwrap();
    }
}

static POOL: Mutex<Vec<TlsServer>> = Mutex::new(Vec::new());

impl Servers for TlsServer {
    const NAME: &'static str = "redis-tls";

    fn pool() -> &'static Mutex<Vec<Self>> {
        &POOL
    }

    fn start() -> Self {
        Self::start(&Authority::ours().server)
    }

    fn url_as(&self, login: &str) -> String {
        self.url_for(&format!("{login}@"), &[("ca", "ca.pem"), ("cert", "client-cert.pem"), ("key", "client-key.pem")])
    }

    fn all(&self) -> Vec<Connection> {
        vec![self.server.connection()]
    }
}
