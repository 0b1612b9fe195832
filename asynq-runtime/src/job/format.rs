//! The formats of arguments and results.

/// How a job's arguments and results are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Codec {
    /// Compact, with a fingerprint of the shape; Rust programs only. The default.
    #[default]
    Postcard,
    /// For queues shared with programs in other languages.
    Json,
}

impl Codec {
    /// Returns `postcard` or `json`.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Postcard => "postcard",
            Self::Json => "json",
        }
    }
}
