//! The tests of the whole program, and of its parts by what they offer to each other. All of them are one program, so that
//! it is linked once.
//!
//! Each module is about one thing, and its first line says which. `cargo test --test it eras::` runs one of them, and
//! `support` has what they share. Tests run at the same time in one process: one that needs a process for itself runs
//! itself again as a child, see `support/alone.rs`.

mod architecture;
mod auth;
mod cli;
mod config;
mod corpus;
mod crash;
mod damage;
mod day;
mod demo;
mod disk;
mod doctor;
mod engine;
mod eras;
mod every_byte;
mod exits;
mod export;
mod host;
mod hostile;
mod http_sse;
mod import;
mod keeper;
mod logind;
mod manual;
mod many;
mod notify;
mod picture;
mod proxy;
mod proxy_requests;
mod proxy_tasks;
mod pty;
mod questions;
mod readme;
mod results;
mod screen;
mod scripts;
mod secrets;
mod servers;
mod sessions;
mod shell;
mod sizes;
mod soak;
mod stdio;
mod store;
mod support;
mod term;
mod trace;
mod transport;
mod upgrade;
mod wrap;
