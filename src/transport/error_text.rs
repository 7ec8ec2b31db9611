//! Classifies a connection error and describes it in plain English.
//!
//! Owns the walk through the sources of a reqwest error. Must not know about requests or retries. Invariant: the class comes
//! from types, never from text; the message contains no URL, header or body.

use std::error::Error;
use std::io;

use rustls::CertificateError;

use crate::{domain::text, protocol::ExchangeEvent};

/// Why no response head came: `Untrusted`, `NotSent` or `NoAnswer`.
pub(super) fn no_response(error: &reqwest::Error, host: &str, has_roots: bool) -> ExchangeEvent {
    // Connect errors include TLS and a proxy's tunnel; the request is written only after all of that.
    if !error.is_connect() {
        // A request that could not be built was not sent either.
        return if error.is_builder() {
            ExchangeEvent::not_sent(innermost(error))
        } else {
            ExchangeEvent::NoAnswer {
                why: lost_response(error),
            }
        };
    }
    if let Some(tls) = causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>()) {
        return match tls {
            rustls::Error::InvalidCertificate(reason) => ExchangeEvent::Untrusted {
                why: certificate_error(reason, has_roots),
            },
            rustls::Error::InvalidMessage(_) => ExchangeEvent::not_sent(
                "the server does not use TLS on this port; should the URL start with http://?",
            ),
            other => {
                let why = in_words(&other.to_string());
                ExchangeEvent::not_sent(format!("the TLS handshake failed ({why})"))
            }
        };
    }
    if error.is_dns() {
        return ExchangeEvent::not_sent(format!("could not resolve the host name {host}"));
    }
    if let Some(kind) = io_kind(error) {
        let is_refused = kind == io::ErrorKind::ConnectionRefused;
        let why = io_message(kind).map_or_else(|| innermost(error), str::to_owned);
        return ExchangeEvent::NotSent { why, is_refused };
    }
    if error.is_timeout() {
        return ExchangeEvent::not_sent("no connection within 10 s");
    }
    ExchangeEvent::not_sent(innermost(error))
}

/// Why a response body ended early.
pub(super) fn broken_body(error: &reqwest::Error) -> String {
    let message = io_kind(error).and_then(io_message);
    let message = message.map_or_else(|| innermost(error), str::to_owned);
    // The type of this error is hyper's, which is not a direct dependency. Only the message depends on its text.
    if message.contains("before message") || message.contains("end of file") {
        return "the response was cut off".to_owned();
    }
    message
}

/// Why no response came to a request that was sent, at least in part.
fn lost_response(error: &reqwest::Error) -> String {
    let message = io_kind(error).and_then(io_message);
    let message = message.map_or_else(|| innermost(error), str::to_owned);
    if message.contains("before message") {
        "the server closed the connection without a response".to_owned()
    } else if message.contains("parsed") {
        format!("the response is not HTTP ({message})")
    } else {
        message
    }
}

fn certificate_error(reason: &CertificateError, has_roots: bool) -> String {
    match reason {
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet; check the system clock".to_owned()
        }
        CertificateError::UnknownIssuer if !has_roots => {
            "this system has no root certificates to verify it with".to_owned()
        }
        CertificateError::UnknownIssuer => {
            "this system does not trust the issuer of its certificate".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".to_owned()
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            // Each is written as `DnsName("lab.example")`.
            let names = presented.iter().filter_map(|it| it.split_once('('));
            let names: Vec<_> = names
                .map(|(_, name)| name.trim_matches(['"', ')']))
                .collect();
            let only = match names.as_slice() {
                [] => String::new(),
                names => format!(", only for {}", text::first_of(names, 3)),
            };
            let message = format!("its certificate is not valid for {}{only}", expected.to_str());
            text::truncate(&message, 300).into_owned()
        }
        CertificateError::Other(other) => match other.to_string().as_str() {
            // Its type is webpki's, which is not a direct dependency. Only the message depends on its text.
            "CaUsedAsEndEntity" => "its certificate is a CA certificate; create one for the server itself, with openssl's `-addext basicConstraints=critical,CA:FALSE`".to_owned(),
            name => format!("its certificate was not accepted ({})", in_words(name)),
        },
        other => format!("its certificate was not accepted ({})", in_words(&other.to_string())),
    }
}

/// An error of rustls, with the names of its types split into words: `HandshakeFailure` becomes `handshake failure`.
fn in_words(error: &str) -> String {
    // What follows are the fields of a type.
    let error = error.split(" {").next().unwrap_or_default();
    let mut words = String::new();
    for letter in error.chars() {
        if letter.is_ascii_uppercase() && words.ends_with(|it: char| it.is_ascii_lowercase()) {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    text::truncate(&words, 200).into_owned()
}

fn io_message(kind: io::ErrorKind) -> Option<&'static str> {
    Some(match kind {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::ConnectionReset => "connection reset by peer",
        io::ErrorKind::ConnectionAborted => "connection aborted",
        io::ErrorKind::BrokenPipe => "the server closed the connection",
        io::ErrorKind::TimedOut => "the connection timed out",
        io::ErrorKind::HostUnreachable => "no route to the host",
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::NetworkDown => "no network",
        io::ErrorKind::UnexpectedEof => "the response was cut off",
        _ => return None,
    })
}

/// The innermost IO error kind that is more specific than `Other`.
fn io_kind(error: &reqwest::Error) -> Option<io::ErrorKind> {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .map(io::Error::kind)
        .filter(|kind| *kind != io::ErrorKind::Other)
        .last()
}

/// The message of the innermost cause; the outermost one contains the URL.
fn innermost(error: &reqwest::Error) -> String {
    causes(error)
        .last()
        .map_or_else(|| "the connection failed".to_owned(), ToString::to_string)
}

/// The causes below `error`, outermost first.
fn causes<'a>(error: &'a reqwest::Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause: &&'a (dyn Error + 'static)| {
        // `io::Error::source` skips the error that it wraps.
        match cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => cause.source(),
        }
    })
}
