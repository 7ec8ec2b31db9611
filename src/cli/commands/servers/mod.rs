//! `servers`: the servers in the configuration.

pub(in crate::cli) mod add;
pub(in crate::cli) mod approve;
pub(in crate::cli) mod import;
pub(in crate::cli) mod list;
pub(in crate::cli) mod remove;
pub(in crate::cli) mod test;
