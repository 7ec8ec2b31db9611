//! Opens a file, such as part of a result, with the desktop's default program.
//!
//! Invariant: the program gets a path that longhaul made, as a single argument and without a shell.

use std::{io, path::Path, process::Command};

use super::browser;

/// A program that opens files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewer {
    /// The name of the program.
    pub program: &'static str,
}

impl Viewer {
    /// The desktop's opener; `None` over SSH or without a display.
    pub fn find(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        browser::desktop_opener(variable).map(|program| Self { program })
    }

    /// Opens a file and waits until the program exits.
    ///
    /// # Errors
    /// The program can't be started or fails, or the path is relative and could be taken for an option.
    pub fn open_and_wait(&self, file: &Path) -> io::Result<()> {
        if !file.is_absolute() {
            return Err(io::Error::other("the path is not absolute"));
        }
        let status = browser::start_apart(Command::new(self.program).arg(file))?.wait()?;
        browser::succeeded(status, self.program)
    }
}
