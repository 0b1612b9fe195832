//! Style sheet, scripts and pictures, embedded in the program. Their path holds a hash of them all, so that browsers keep
//! them for a year and never mix two versions.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::Write as _,
    sync::LazyLock,
};

use axum::{
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
    routing::get,
};

use flate2::{Compression, write::GzEncoder};

use crate::{failure::Failure, path::Segments, route::Route, state::AppState};

macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(concat!("../assets/", $name)) as &[u8])),*]
    };
}

/// Every file, by name.
static ASSETS: &[(&str, &[u8])] = &assets![
    "icon.svg",
    "js/actions.js",
    "js/app.js",
    "js/charts.js",
    "js/find.js",
    "js/keys.js",
    "js/live.js",
    "js/morph.js",
    "js/select.js",
    "js/theme.js",
    "style.css",
    "uplot/uplot.css",
    "uplot/uplot.js",
];

/// A hash of all files, so that a new version has new paths.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    ASSETS.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
});

/// The files of [`ASSETS`], compressed for clients that accept gzip, as all browsers do.
static PACKED: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| ASSETS.iter().map(|(_, bytes)| packed(bytes)).collect());

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to a vector cannot fail; an empty one would be sent as the file is.
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default()
}

/// Returns the routes of the assets.
pub(crate) fn routes() -> Vec<Route> {
    vec![Route::public("/assets/{version}/{*name}", get(asset))]
}

/// Returns the path of one of our own files, such as `js/app.js`.
pub(crate) fn href(app: &AppState, name: &str) -> String {
    let segments: Vec<&str> = ["assets", &**VERSION].into_iter().chain(name.split('/')).collect();
    app.href(&segments)
}

async fn asset(Segments((version, name)): Segments<(String, String)>, headers: HeaderMap) -> Result<Response, Failure> {
    let Some(at) = ASSETS.iter().position(|(known, _)| *known == name) else {
        return Err(Failure::not_found("there is no such file"));
    };
    // An old page may ask for an old version: it gets the new one, but must ask again.
    let cache = if version == *VERSION { "public, max-age=31536000, immutable" } else { "no-cache" };
    let (name, bytes) = ASSETS[at];
    let about = [(header::CACHE_CONTROL, cache), (header::VARY, "accept-encoding"), (header::CONTENT_TYPE, kind(name))];
    if takes_gzip(&headers) && !PACKED[at].is_empty() {
        return Ok((about, [(header::CONTENT_ENCODING, "gzip")], PACKED[at].as_slice()).into_response());
    }
    Ok((about, bytes).into_response())
}

/// Returns whether the answer may be compressed; a quality of zero means no.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        parts.next() == Some("gzip") && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn compressed_files_are_sent_to_clients_that_accept_them() {
        for (accepted, expected) in [
            ("gzip, deflate, br", true),
            ("br;q=1, gzip;q=0.5", true),
            ("gzip;q=0", false),
            ("", false),
            ("xgzip", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted));
            assert_eq!(takes_gzip(&headers), expected, "{accepted}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
        assert!(PACKED.iter().all(|packed| packed.starts_with(&[0x1f, 0x8b])));
    }

    #[test]
    fn every_file_is_embedded_under_its_name() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let (mut found, mut folders) = (Vec::new(), vec![folder.clone()]);
        while let Some(next) = folders.pop() {
            for entry in std::fs::read_dir(next).expect("a folder") {
                let path = entry.expect("an entry").path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => found.push(path.strip_prefix(&folder).expect("below").to_string_lossy().into_owned()),
                }
            }
        }
        found.retain(|name| !name.ends_with("LICENSE") && !name.ends_with(".md"));
        found.sort();
        assert_eq!(found, ASSETS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        assert!(ASSETS.iter().all(|(name, bytes)| !bytes.is_empty() && kind(name) != "application/octet-stream"));
    }
}
