//! longhaul

pub mod domain;
pub mod link;
pub mod protocol;
