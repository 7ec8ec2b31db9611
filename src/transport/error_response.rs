//! Reads a response other than 2xx: a JSON-RPC error, the server's text, and `Retry-After`.
//!
//! Must not know about sockets. Invariant: whatever the body contains, the text stays short and nothing fails.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderName, RETRY_AFTER};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::frame::DEFAULT_CAP_BYTES;
use super::sse::Sse;
use crate::protocol::{ExchangeEvent, HttpError, RpcError, rpc_error};

/// Characters kept of a text body: enough for two lines on the screen.
const TEXT_CHARS: usize = 300;

/// Longer values of `Retry-After` are cut to one day.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads an error response; `body` may be cut off anywhere.
pub(super) fn read(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> HttpError {
    let error = error_in(body).or_else(|| error_in(first_event(headers, body)?.as_bytes()));
    let said = match &error {
        Some(error) if !error.message.trim().is_empty() => Some(one_line(&error.message)),
        _ => text_in(status, body),
    };
    HttpError {
        status: status.as_u16(),
        retry_after: retry_after(headers),
        error,
        server_text: said,
        ..HttpError::default()
    }
}

/// The value of a header; `None` if it is absent or not visible ASCII.
pub(super) fn text_of(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// The media type without its parameters, lowercase.
pub(super) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = text_of(headers, CONTENT_TYPE)?;
    Some(value.split(';').next()?.trim().to_ascii_lowercase())
}

/// The JSON-RPC error in a body of any content type; in a batch, that of the first message.
fn error_in(body: &[u8]) -> Option<RpcError> {
    #[derive(Deserialize)]
    struct Response<'b> {
        #[serde(borrow)]
        error: &'b RawValue,
    }
    let batch: Vec<&RawValue> = serde_json::from_slice(body).unwrap_or_default();
    let message = batch.first().map_or(body, |first| first.get().as_bytes());
    let response: Response<'_> = serde_json::from_slice(message).ok()?;
    let parts: Map<String, Value> = serde_json::from_str(response.error.get()).ok()?;
    let is = |key: &str, is_kind: fn(&Value) -> bool| parts.get(key).is_some_and(is_kind);
    let is_of_server = is("code", Value::is_number) || is("message", Value::is_string);
    is_of_server.then(|| rpc_error(response.error))
}

fn first_event(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    if media_type(headers)? != "text/event-stream" {
        return None;
    }
    let mut sse = Sse::new(DEFAULT_CAP_BYTES);
    sse.feed(Bytes::copy_from_slice(body));
    std::iter::from_fn(|| sse.take()).find_map(|event| match event {
        ExchangeEvent::Event { data, .. } if !data.is_empty() => Some(data),
        _ => None,
    })
}

/// One readable line from a body that may be plain text, JSON or HTML.
fn text_in(status: StatusCode, body: &[u8]) -> Option<String> {
    if memchr::memchr(0, body).is_some() {
        return None;
    }
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    // Web frameworks have JSON errors of their own; the sentence inside reads better than the JSON around it.
    if let Ok(Value::Object(fields)) = serde_json::from_str(text) {
        let sentence = ["error_description", "message", "detail", "error"]
            .iter()
            .find_map(|name| fields.get(*name)?.as_str());
        return Some(one_line(sentence.unwrap_or(text)));
    }
    let lower = text.to_ascii_lowercase();
    if lower.starts_with("<!doctype html") || lower.starts_with("<html") || lower.contains("<body")
    {
        return title(text, &lower).or_else(|| {
            status
                .canonical_reason()
                .map(|reason| format!("{} {reason}", status.as_u16()))
        });
    }
    Some(one_line(text))
}

/// The title of an HTML page; `lower` is `text` in lowercase ASCII, so that indexes match.
fn title(text: &str, lower: &str) -> Option<String> {
    let tag = lower.find("<title")?;
    let start = tag + lower.get(tag..)?.find('>')? + 1;
    let end = start + lower.get(start..)?.find("</title")?;
    let title = one_line(text.get(start..end)?);
    (!title.is_empty()).then_some(title)
}

/// The start of a text, with each run of whitespace as one space.
fn one_line(text: &str) -> String {
    // Cut first, because the text may be long.
    let beginning: String = text.trim_start().chars().take(TEXT_CHARS).collect();
    beginning.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `Retry-After` as seconds or as a date, between 0 and [`MAX_RETRY_AFTER`].
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = text_of(headers, RETRY_AFTER)?;
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = value.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
    }
    let until = http_date(value)?;
    // Relative to the server's `Date` header if there is one, because our clock may be wrong.
    let from = text_of(headers, DATE)
        .and_then(http_date)
        .unwrap_or_else(Timestamp::now);
    let wait = Duration::try_from(until.duration_since(from)).unwrap_or_default();
    Some(wait.min(MAX_RETRY_AFTER))
}

/// Parses a date in the form that RFC 9110, section 5.6.7, prefers.
fn http_date(text: &str) -> Option<Timestamp> {
    Some(rfc2822::parse(text).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
            .collect()
    }

    fn said(body: &[u8]) -> Option<String> {
        read(StatusCode::BAD_GATEWAY, &HeaderMap::new(), body).server_text
    }

    #[test]
    fn truncates_a_long_error() {
        let long = "x".repeat(40_000);
        let body = format!(r#"{{"error":{{"code":1,"message":"{long}"}}}}"#);
        let error = read(StatusCode::BAD_GATEWAY, &HeaderMap::new(), body.as_bytes());
        let (rpc_error, said) = (error.error.unwrap(), error.server_text.unwrap());
        assert!(rpc_error.message.len() < crate::domain::text::SERVER_TEXT_BYTES + 100);
        assert!(said.len() <= TEXT_CHARS);
    }

    #[test]
    fn finds_a_json_rpc_error_under_any_content_type() {
        let body = br#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}"#;
        for kind in ["application/json", "text/plain", "text/html; charset=utf-8"] {
            let error = read(
                StatusCode::NOT_FOUND,
                &headers(&[(CONTENT_TYPE, kind)]),
                body,
            );
            assert_eq!(
                error.error,
                Some(RpcError {
                    code: -32600,
                    message: "Session not found".to_owned(),
                    data: None,
                })
            );
            assert_eq!(error.server_text.as_deref(), Some("Session not found"));
        }
    }

    #[test]
    fn finds_a_json_rpc_error_in_a_stream_and_in_a_batch() {
        let stream =
            b"id: 1\ndata:\n\ndata: {\"error\":{\"code\":-32602,\"message\":\"gone\"}}\n\n";
        let kind = headers(&[(CONTENT_TYPE, "Text/Event-Stream; charset=utf-8")]);
        let error = read(StatusCode::BAD_REQUEST, &kind, stream);
        assert_eq!(error.error.map(|error| error.code), Some(-32602));
        let batch = br#"[{"error":{"code":1}}]"#;
        let error = read(StatusCode::BAD_REQUEST, &HeaderMap::new(), batch);
        assert_eq!(error.error.map(|error| error.code), Some(1));
    }

    #[test]
    fn takes_the_text_from_body_title_or_status() {
        assert_eq!(
            said(b"  Session\nnot found \r\n").as_deref(),
            Some("Session not found")
        );
        assert_eq!(
            said(b"<!DOCTYPE html><HEAD><Title lang=en> Bad\n gateway </TITLE>").as_deref(),
            Some("Bad gateway")
        );
        assert_eq!(
            said(b"<html><body>x</body></html>").as_deref(),
            Some("502 Bad Gateway")
        );
        assert_eq!(
            said(br#"{"detail":"Not Found"}"#).as_deref(),
            Some("Not Found")
        );
        assert_eq!(said(b""), None);
        assert_eq!(said(b"\x00\x01binary"), None);
        assert_eq!(
            said("ä".repeat(5_000).as_bytes()).unwrap().chars().count(),
            TEXT_CHARS
        );
        // Cut inside a character and inside the title.
        assert_eq!(said(b"caf\xC3").as_deref(), Some("caf\u{FFFD}"));
        assert_eq!(
            said(b"<html><title>cut").as_deref(),
            Some("502 Bad Gateway")
        );
    }

    #[test]
    fn parses_and_bounds_retry_after() {
        let date = "Fri, 20 Nov 2026 10:00:00 GMT";
        for (value, seconds) in [
            ("120", Some(120)),
            ("0", Some(0)),
            ("99999999999999999999999", Some(86_400)),
            ("Fri, 20 Nov 2026 10:00:30 GMT", Some(30)),
            ("Fri, 20 Nov 2026 09:00:00 GMT", Some(0)),
            ("Fri, 19 Nov 2027 09:00:00 GMT", Some(86_400)),
            ("soon", None),
            ("-5", None),
            ("", None),
        ] {
            let headers = headers(&[(RETRY_AFTER, value), (DATE, date)]);
            assert_eq!(
                retry_after(&headers),
                seconds.map(Duration::from_secs),
                "{value}"
            );
        }
        let past = headers(&[(RETRY_AFTER, "Sun, 06 Nov 1994 08:49:37 GMT")]);
        assert_eq!(retry_after(&past), Some(Duration::ZERO), "by our own clock");
    }
}
