//! The environment variables of this library, and those that are set under a name which is nearly one of them.

use std::sync::Once;

use asynq_grammar::one_slip;

/// All variables that programs of this library read, those of asynq-cron and asynq-dashboard too.
const KNOWN: [&str; 24] = [
    "ASYNQ_URL",
    "ASYNQ_QUEUES",
    "ASYNQ_ONLY",
    "ASYNQ_EXCEPT",
    "ASYNQ_CONCURRENCY",
    "ASYNQ_SHUTDOWN_TIMEOUT",
    "ASYNQ_LOG_FORMAT",
    "ASYNQ_PROGRAM",
    "ASYNQ_RELEASE",
    "ASYNQ_METRICS",
    "ASYNQ_METRICS_QUEUES",
    "ASYNQ_DASHBOARD",
    "ASYNQ_DASHBOARD_HOSTS",
    "ASYNQ_DASHBOARD_MOUNT",
    "ASYNQ_DASHBOARD_PASSWORD",
    "ASYNQ_DASHBOARD_PASSWORD_FILE",
    "ASYNQ_DASHBOARD_PASSWORD_HASH",
    "ASYNQ_DASHBOARD_PASSWORD_HASH_FILE",
    "ASYNQ_DASHBOARD_READ_ONLY",
    "ASYNQ_DASHBOARD_TITLE",
    "ASYNQ_DASHBOARD_TOKEN",
    "ASYNQ_DASHBOARD_TOKEN_FILE",
    "ASYNQ_DASHBOARD_TRUSTED_HEADER",
    "ASYNQ_DASHBOARD_TRUSTED_PROXIES",
];

/// Warns, once in a process, of each variable that is set and not known, and whose name is a known one with a slip. Other
/// unknown variables are the program's own. The values may be secret, and are not shown.
pub fn warn_of_misspelled_variables() {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        for (name, _) in std::env::vars_os() {
            if let Some(name) = name.to_str()
                && let Some(meant) = meant(name)
            {
                log!(warn, "the environment variable `{name}` is not known; `{meant}` is");
            }
        }
    });
}

/// Returns the known variable that an unknown one is by one slip, or by a word that tells the broker.
fn meant(name: &str) -> Option<&'static str> {
    let rest = name.strip_prefix("ASYNQ_")?;
    if KNOWN.contains(&name) {
        return None;
    }
    one_slip(name, KNOWN).or_else(|| one_slip(&format!("ASYNQ_{}", rest.strip_prefix("REDIS_")?), KNOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_variable_has_a_known_one_and_a_variable_of_the_program_has_none() {
        for (name, expected) in [
            ("ASYNQ_CONCURENCY", Some("ASYNQ_CONCURRENCY")),
            ("ASYNQ_QUEUE", Some("ASYNQ_QUEUES")),
            ("ASYNQ_URI", Some("ASYNQ_URL")),
            ("ASYNQ_url", Some("ASYNQ_URL")),
            ("ASYNQ_REDIS_URI", Some("ASYNQ_URL")),
            ("ASYNQ_REDIS_URL", Some("ASYNQ_URL")),
            ("ASYNQ_METRICS_QUEUE", Some("ASYNQ_METRICS_QUEUES")),
            ("ASYNQ_DASBOARD", Some("ASYNQ_DASHBOARD")),
            ("ASYNQ_DASHBOARD_READONLY", Some("ASYNQ_DASHBOARD_READ_ONLY")),
            ("ASYNQ_DASHBOARD_URL", None),
            ("ASYNQ_METRICS_USER", None),
            ("ASYNQ_REDIS_HOST", None),
            ("ASYNQ_LOG_LEVEL", None),
            ("ASYNQ_LOG_TARGET", None),
            ("ASYNQ_ONCE", None),
            ("ASYNQ_EXPECT", None),
            ("ASYNQ_RELAY", None),
            ("ASYNQ_SENTRY", None),
            ("ASYNQ_TTL", None),
            // Kubernetes sets such variables for services named `asynq`, `asynq-redis` and `asynq-dashboard`.
            ("ASYNQ_PORT", None),
            ("ASYNQ_SERVICE_HOST", None),
            ("ASYNQ_REDIS_PORT_6379_TCP_ADDR", None),
            ("ASYNQ_DASHBOARD_PORT", None),
            ("ASYNQ_DASHBOARD_SERVICE_PORT", None),
            ("ASYNQ_", None),
            ("SHOP_CONCURENCY", None),
        ] {
            assert_eq!(meant(name), expected, "{name}");
        }
        assert!(KNOWN.into_iter().all(|known| meant(known).is_none()));
    }
}
