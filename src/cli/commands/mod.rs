//! The commands, one file each. A command never uses another one: what several need is in the modules beside this one.

pub(super) mod adopt;
pub(super) mod answer;
pub(super) mod call;
pub(super) mod control;
#[cfg(feature = "demo")]
pub(super) mod demo;
pub(super) mod doctor;
pub(super) mod edit;
pub(super) mod export;
pub(super) mod keeper;
pub(super) mod login;
pub(super) mod logs;
pub(super) mod ls;
pub(super) mod manual;
pub(super) mod paths;
pub(super) mod proxy;
pub(super) mod remove;
pub(super) mod result;
pub(super) mod servers;
pub(super) mod sessions;
pub(super) mod show;
pub(super) mod tools;
pub(super) mod trace;
pub(super) mod wait;
pub(super) mod watch;
pub(super) mod wrap;
