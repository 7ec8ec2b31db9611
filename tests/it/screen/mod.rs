//! The screen, tested without a terminal: pictures, behaviour and properties.

// The attribute tells clippy that these are tests, where unwrap is at home.
#[cfg(test)]
mod behaviour;
#[cfg(test)]
mod list;
#[cfg(test)]
mod pictures;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod questions;
mod results;
#[cfg(test)]
mod selection;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod support;
#[cfg(test)]
mod words;
