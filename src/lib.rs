//! longhaul

#[cfg(feature = "demo")]
pub mod demo;
