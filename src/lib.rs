//! longhaul

pub mod domain;
pub mod protocol;
pub mod transport;
