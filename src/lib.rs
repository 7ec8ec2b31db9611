//! longhaul

pub mod domain;
pub mod protocol;
