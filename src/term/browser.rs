//! Opens a web page in the user's browser.
//!
//! Invariant: the browser gets only http and https URLs, each as a single argument and without a shell.

use std::{
    io,
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
};

use url::Url;

/// A command that opens a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Browser {
    /// The program and its arguments.
    command: Vec<String>,
}

impl Browser {
    /// The browser to use: the configured command `chosen`, else the first in `$BROWSER`, else the desktop's opener. `None`
    /// if there is none, such as over SSH.
    pub fn find(chosen: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let from_environment = || Some(variable("BROWSER")?.split(':').next()?.to_owned());
        let line = chosen.map(str::to_owned).or_else(from_environment);
        if let Some(line) = line {
            let command: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            return (!command.is_empty()).then_some(Self { command });
        }
        desktop_opener(variable).map(|opener| Self {
            command: vec![opener.to_owned()],
        })
    }

    /// Opens a page and waits until the command exits.
    ///
    /// # Errors
    /// As for [`Self::open`], or the command fails.
    pub fn open_and_wait(&self, page: &str) -> io::Result<()> {
        let page = Url::parse(page).map_err(io::Error::other)?;
        let status = self.start(&page, None)?.wait()?;
        if status.success() {
            return Ok(());
        }
        let why = format!("the browser command failed: {status}");
        Err(io::Error::other(why))
    }

    /// Opens a page without waiting. The URL replaces `%s` in the command, or is the last argument. `hidden_variable` is
    /// removed from the command's environment.
    ///
    /// # Errors
    /// The command can't be started, or the URL is neither http nor https.
    pub fn open(&self, page: &Url, hidden_variable: Option<&str>) -> io::Result<()> {
        let mut child = self.start(page, hidden_variable)?;
        // A child that nobody waits for would stay a zombie.
        std::thread::Builder::new()
            .name("browser".to_owned())
            .spawn(move || child.wait())?;
        Ok(())
    }

    fn start(&self, page: &Url, hidden_variable: Option<&str>) -> io::Result<Child> {
        if !matches!(page.scheme(), "http" | "https") {
            return Err(io::Error::other("not an http or https URL"));
        }
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(io::Error::other("no browser command"));
        };
        let mut process = Command::new(program);
        let mut has_url = false;
        for argument in arguments {
            has_url |= argument.contains("%s");
            process.arg(argument.replace("%s", page.as_str()));
        }
        if !has_url {
            process.arg(page.as_str());
        }
        if let Some(name) = hidden_variable {
            process.env_remove(name);
        }
        // In a process group of its own, so that a terminal program can't take over this terminal.
        process
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
    }
}

/// The desktop's command that opens URLs; `None` over SSH or without a display.
fn desktop_opener(variable: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    let has = |name: &&str| variable(name).is_some_and(|value| !value.is_empty());
    let is_remote = ["SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"].iter().any(has);
    let has_display = cfg!(target_os = "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(has);
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    (has_display && !is_remote).then_some(opener)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(chosen: Option<&str>, variables: &[(&str, &str)]) -> Option<Vec<String>> {
        let holds = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        };
        Browser::find(chosen, holds).map(|browser| browser.command)
    }

    #[test]
    fn prefers_the_users_choice_and_finds_none_over_ssh() {
        let display = ("DISPLAY", ":0");
        let ssh = ("SSH_CONNECTION", "x");
        let browser = ("BROWSER", "firefox --new-window:lynx");
        let command = |text: &str| Some(text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(found(Some("my %s"), &[browser, display]), command("my %s"));
        assert_eq!(
            found(None, &[browser, ssh]),
            command("firefox --new-window")
        );
        assert_eq!(found(None, &[display, ssh]), None);
        assert_eq!(found(Some("  "), &[display]), None);
        if cfg!(target_os = "linux") {
            assert_eq!(found(None, &[display]), command("xdg-open"));
            assert_eq!(found(None, &[("BROWSER", ""), ("DISPLAY", "")]), None);
        }
    }

    #[test]
    fn opens_only_http_and_https_urls() {
        let browser = Browser {
            command: vec!["true".to_owned()],
        };
        for url in ["file:///etc/passwd", "javascript:1", "mailto:a@b"] {
            assert!(browser.open(&Url::parse(url).unwrap(), None).is_err());
            assert!(browser.open_and_wait(url).is_err());
        }
        for never in ["--help", "", "x"] {
            assert!(browser.open_and_wait(never).is_err());
        }
    }
}
