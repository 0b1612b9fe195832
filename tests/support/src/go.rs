//! The Go that builds the real asynq.

use std::process::Command;

/// The minor version of Go 1 that the modules of the Go programs name.
const MINOR: u32 = 24;

/// Returns whether there is a Go that builds the real asynq: 1.24 or newer.
pub fn has_go() -> bool {
    let version = Command::new("go").arg("version").output();
    version.is_ok_and(|output| output.status.success() && is_new_enough(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads a line such as `go version go1.24.3 linux/amd64`.
fn is_new_enough(version: &str) -> bool {
    let minor = version.split_whitespace().find_map(|word| word.strip_prefix("go1."));
    let digits = minor.and_then(|minor| minor.split(|c: char| !c.is_ascii_digit()).next());
    digits.and_then(|digits| digits.parse::<u32>().ok()).is_some_and(|minor| minor >= MINOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_go_counts_as_none() {
        for (version, expected) in [
            ("go version go1.24.0 linux/amd64", true),
            ("go version go1.24 darwin/arm64", true),
            ("go version go1.25rc1 linux/amd64", true),
            ("go version devel go1.26-3901409b5d Mon Nov 2 2026 linux/amd64", true),
            ("go version go1.100.1 linux/amd64", true),
            ("go version go1.23.12 linux/amd64", false),
            ("go version go1.9 linux/amd64", false),
            ("go version devel +abc linux/amd64", false),
            ("", false),
        ] {
            assert_eq!(is_new_enough(version), expected, "{version}");
        }
    }
}
