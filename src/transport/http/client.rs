//! The reqwest client: TLS roots, timeouts, keepalive and proxies.

use std::{sync::Once, time::Duration};

use reqwest::{Client, redirect, retry};
use rustls::{ClientConfig, RootCertStore, pki_types::CertificateDer};
use url::Url;

use crate::domain::server_url::is_loopback;

/// Covers DNS, TCP, TLS and a proxy's tunnel together. The only timeout for reaching a server.
pub(in crate::transport) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Keeps NAT devices on the path from dropping a silent stream.
pub(in crate::transport) const KEEPALIVE: Duration = Duration::from_secs(30);

/// TCP notices a dead network after about five minutes. Resumable streams have a shorter timeout of their own; for the
/// others, a network that recovers within this time costs nothing.
pub(in crate::transport) const KEEPALIVE_PROBES: u32 = 8;

/// Installs the TLS provider (rustls on ring) for this process. Repeated calls do nothing.
pub fn ensure_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A provider that was installed before works as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

#[derive(Clone)]
pub(in crate::transport) struct HttpClient {
    pub(in crate::transport) client: Client,
    /// Whether there are any root certificates to trust.
    pub(in crate::transport) has_roots: bool,
}

/// The HTTP client can't be built.
#[derive(Debug, thiserror::Error)]
#[error("could not build the HTTP client ({0})")]
pub(in crate::transport) struct ClientError(#[source] reqwest::Error);

/// A client with the certificates and proxy settings for `url`.
pub(in crate::transport) fn build_client(
    url: &Url,
    extra_roots: &[CertificateDer<'static>],
) -> Result<HttpClient, ClientError> {
    ensure_provider();
    let mut roots = RootCertStore::empty();
    if url.scheme() == "https" {
        let native = rustls_native_certs::load_native_certs();
        for error in &native.errors {
            tracing::warn!(%error, "could not read some root certificates");
        }
        roots.add_parsable_certificates(native.certs);
        roots.add_parsable_certificates(extra_roots.iter().cloned());
    }
    let has_roots = !roots.is_empty();
    // Also for http: by default reqwest loads the system's certificates and fails if there are none.
    let tls = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::none())
        .referer(false)
        .retry(retry::never())
        // A pooled connection may die while a request is being written to it. Nobody knows then whether the server got
        // it, and the call ends as `unknown`. A new connection for each request can't be stale.
        .pool_max_idle_per_host(0)
        .tcp_nodelay(true)
        .tcp_keepalive(KEEPALIVE)
        .tcp_keepalive_interval(KEEPALIVE)
        .tcp_keepalive_retries(KEEPALIVE_PROBES);
    #[cfg(target_os = "linux")]
    {
        // reqwest's default of 30 s would end a silent exchange after a short network outage.
        builder = builder.tcp_user_timeout(None);
    }
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    let client = builder
        .build()
        .map_err(|error| ClientError(error.without_url()))?;
    Ok(HttpClient { client, has_roots })
}
