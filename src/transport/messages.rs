//! What went wrong with a connection, in plain words and in the class that decides what may follow.
//!
//! Owns the walk through the causes of an HTTP client's error. Must not know of requests or retries. Invariant: the class
//! comes from types, never from text; the words hold no URL, header or body.

use std::error::Error;
use std::io;

use rustls::CertificateError;

use crate::protocol::ExchangeEvent;

/// Says why no response head came: `Untrusted`, `NotSent` or `NoAnswer`.
pub(super) fn before_head(error: &reqwest::Error, host: &str, has_roots: bool) -> ExchangeEvent {
    // Everything up to the finished connection, TLS and a proxy's tunnel included; the request is written only after.
    if !error.is_connect() {
        // A request that could not be built was not written either.
        return if error.is_builder() {
            ExchangeEvent::NotSent {
                why: innermost(error),
                is_refused: false,
            }
        } else {
            ExchangeEvent::NoAnswer {
                why: no_answer(error),
            }
        };
    }
    if let Some(tls) = causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>()) {
        return match tls {
            rustls::Error::InvalidCertificate(reason) => ExchangeEvent::Untrusted {
                why: certificate(reason, has_roots),
            },
            rustls::Error::InvalidMessage(_) => {
                not_sent("the server does not speak TLS on this port; is it an http:// address?")
            }
            other => not_sent(format!("the TLS handshake failed ({other})")),
        };
    }
    if error.is_dns() {
        return not_sent(format!("no address found for the name {host}"));
    }
    if let Some(kind) = io_kind(error) {
        let is_refused = kind == io::ErrorKind::ConnectionRefused;
        let why = io_words(kind).map_or_else(|| innermost(error), str::to_owned);
        return ExchangeEvent::NotSent { why, is_refused };
    }
    if error.is_timeout() {
        return not_sent("no connection within 10 s");
    }
    not_sent(innermost(error))
}

/// Says why a body broke off.
pub(super) fn in_body(error: &reqwest::Error) -> String {
    if let Some(words) = io_kind(error).and_then(io_words) {
        return words.to_owned();
    }
    let inner = innermost(error);
    // The HTTP library's own type is not among our crates; only the words depend on its text.
    if inner.contains("before message") || inner.contains("end of file") {
        return "the body ended early".to_owned();
    }
    inner
}

fn no_answer(error: &reqwest::Error) -> String {
    if let Some(words) = io_kind(error).and_then(io_words) {
        return words.to_owned();
    }
    let inner = innermost(error);
    if inner.contains("before message") {
        "the server closed the connection without an answer".to_owned()
    } else if inner.contains("parsed") {
        format!("the answer is not HTTP ({inner})")
    } else {
        inner
    }
}

fn not_sent(why: impl Into<String>) -> ExchangeEvent {
    ExchangeEvent::NotSent {
        why: why.into(),
        is_refused: false,
    }
}

fn certificate(reason: &CertificateError, has_roots: bool) -> String {
    match reason {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet; is the clock right?".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name".to_owned()
        }
        CertificateError::Revoked => "its certificate was revoked".to_owned(),
        CertificateError::UnknownIssuer if !has_roots => {
            "this machine has no root certificates to check it with".to_owned()
        }
        CertificateError::UnknownIssuer => {
            "this machine does not trust the issuer of its certificate".to_owned()
        }
        other => format!("its certificate was not accepted ({other})"),
    }
}

fn io_words(kind: io::ErrorKind) -> Option<&'static str> {
    Some(match kind {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::ConnectionReset => "connection reset by peer",
        io::ErrorKind::ConnectionAborted => "connection aborted",
        io::ErrorKind::BrokenPipe => "the server closed the connection",
        io::ErrorKind::TimedOut => "the connection timed out",
        io::ErrorKind::HostUnreachable => "no route to the host",
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::NetworkDown => "no network",
        io::ErrorKind::UnexpectedEof => "the body ended early",
        _ => return None,
    })
}

/// The innermost input or output error that says more than "other".
fn io_kind(error: &reqwest::Error) -> Option<io::ErrorKind> {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .map(io::Error::kind)
        .filter(|kind| *kind != io::ErrorKind::Other)
        .last()
}

/// The text of the last cause; the first one's names the URL.
fn innermost(error: &reqwest::Error) -> String {
    causes(error)
        .last()
        .map_or_else(|| "the connection broke".to_owned(), ToString::to_string)
}

/// The causes below `error`, outermost first.
fn causes<'a>(error: &'a reqwest::Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause: &&'a (dyn Error + 'static)| {
        // An io error's `source` steps over the very error that it wraps.
        match cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => cause.source(),
        }
    })
}
