//! Tools that the integration tests share; each test crate says `mod support;`.
//!
//! A test crate uses a part of them only, and the compiler would call the rest dead. Each file therefore ends with a
//! `const _` that names what it offers: that counts as a use, and unlike an `expect(dead_code)` it cannot go stale.

pub(crate) mod program;
pub(crate) mod proxy;
pub(crate) mod server;
pub(crate) mod wire;
