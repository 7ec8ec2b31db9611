//! The desktop's program for files, for a part of a result that a person wants to see.
//!
//! Invariant: it gets a path that longhaul made, as one argument and by no shell.

use std::{
    io,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
};

use super::browser;

/// A program that opens files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewer {
    program: String,
}

impl Viewer {
    /// The desktop's own, where there is a desktop in front of this terminal.
    pub fn find(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        browser::opener(variable).map(|program| Self {
            program: program.to_owned(),
        })
    }

    /// The program that is run.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Opens a file and waits until the program has taken it.
    ///
    /// # Errors
    /// It cannot be started, or says that it failed; or the path could be read as an option.
    pub fn open_and_wait(&self, file: &Path) -> io::Result<()> {
        if !file.is_absolute() {
            return Err(io::Error::other("only a whole path is opened"));
        }
        // A group of its own, so that no viewer for terminals takes this one.
        let status = Command::new(&self.program)
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .status()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("it ended with {status}")))
        }
    }
}
