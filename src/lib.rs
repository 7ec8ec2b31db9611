//! longhaul

pub mod domain;
pub mod protocol;
pub mod store;
pub mod term;
