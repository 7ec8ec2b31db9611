//! Servers inside the test's process.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    net::{SocketAddr, TcpListener},
    thread,
};

use axum::Router;

/// Serves `router` on a free port, as long as the test's process lives.
pub(crate) fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, router).await.unwrap();
        });
    });
    addr
}

/// The demo server on a free port, with its data in `dir`.
#[cfg(feature = "demo")]
pub(crate) fn demo(dir: std::path::PathBuf) -> longhaul::demo::Server {
    let options = longhaul::demo::Options {
        dir,
        port: None,
        cross_stream_replay: false,
        idle_exit: None,
    };
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(longhaul::demo::serve(options))
        .unwrap()
}

const _: () = {
    let _ = serve;
    #[cfg(feature = "demo")]
    let _ = demo;
};
