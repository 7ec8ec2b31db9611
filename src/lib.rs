//! longhaul

pub mod app;
pub mod domain;
pub mod protocol;
pub mod ui;
