//! longhaul

pub mod app;
#[cfg(feature = "demo")]
pub mod demo;
pub mod domain;
pub mod engine;
pub mod link;
pub mod protocol;
pub mod store;
pub mod transport;
pub mod ui;
