//! longhaul

pub mod domain;
pub mod link;
pub mod protocol;
pub mod store;
pub mod transport;
