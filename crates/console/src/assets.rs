//! The style sheet, the script and the icon. They are a part of the program.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http_api::{answer, complete};
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue};

/// The files: the name, the content type and the contents.
const FILES: [(&str, &str, &str); 3] = [
    ("console.css", "text/css; charset=utf-8", include_str!("../assets/console.css")),
    ("console.js", "text/javascript; charset=utf-8", include_str!("../assets/console.js")),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
];

/// The address of a file. It has a sum of the contents, so a browser can keep the file for ever.
pub(crate) fn address(name: &str) -> String {
    let contents = FILES.iter().find(|(known, ..)| *known == name).map_or("", |file| file.2);
    format!("{}/assets/{name}?v={:08x}", crate::PREFIX, sum(contents))
}

/// FNV-1a, with 32 bits. It only tells versions of a file apart.
fn sum(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

pub(crate) async fn asset(Path(name): Path<String>) -> Response {
    let Some((_, kind, contents)) = FILES.iter().find(|(known, ..)| *known == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let mut response = complete(answer(StatusCode::OK, kind, *contents));
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    response.headers_mut().insert(CACHE_CONTROL, forever);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_from_another_server() {
        for (name, _, contents) in FILES {
            let contents = contents.replace("http://www.w3.org/2000/svg", "");
            assert!(!contents.contains("//cdn") && !contents.contains("http"), "{name}");
        }
    }

    #[test]
    fn all_files_together_are_small() {
        assert!(FILES.iter().map(|file| file.2.len()).sum::<usize>() < 24_000);
    }
}
