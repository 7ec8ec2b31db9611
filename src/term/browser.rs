//! The person's browser, for a page that they asked for.
//!
//! Invariant: it gets a URL of http or https and nothing else, as one argument and by no shell.

use std::{
    io,
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
};

use url::Url;

/// A command that opens a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Browser {
    words: Vec<String>,
}

impl Browser {
    /// The browser to use: `chosen` by the person, else the first of `$BROWSER`, else the desktop's own, where there is a
    /// desktop in front of this terminal.
    pub fn find(chosen: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let of_environment = || Some(variable("BROWSER")?.split(':').next()?.to_owned());
        let command = chosen.map(str::to_owned).or_else(of_environment);
        if let Some(command) = command {
            let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
            return (!words.is_empty()).then_some(Self { words });
        }
        opener(variable).map(|opener| Self {
            words: vec![opener.to_owned()],
        })
    }

    /// Opens a page and waits until the command has taken it.
    ///
    /// # Errors
    /// As [`Self::open`], and the command says that it failed.
    pub fn open_and_wait(&self, page: &str) -> io::Result<()> {
        let page = Url::parse(page).map_err(io::Error::other)?;
        let status = self.start(&page, None)?.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("it ended with {status}")))
        }
    }

    /// Opens a page, and does not wait for what becomes of it; `without` is a variable that it must not see. A `%s` in the
    /// command stands for the URL, which else comes last.
    ///
    /// # Errors
    /// The command cannot be started, or the URL is neither http nor https.
    pub fn open(&self, page: &Url, without: Option<&str>) -> io::Result<()> {
        let mut child = self.start(page, without)?;
        // Whoever is not waited for stays in the table of processes.
        std::thread::Builder::new()
            .name("browser".to_owned())
            .spawn(move || child.wait())?;
        Ok(())
    }

    fn start(&self, page: &Url, without: Option<&str>) -> io::Result<Child> {
        if !matches!(page.scheme(), "http" | "https") {
            return Err(io::Error::other("only pages of http and https are opened"));
        }
        let Some((program, arguments)) = self.words.split_first() else {
            return Err(io::Error::other("no command"));
        };
        let mut command = Command::new(program);
        let mut has_url = false;
        for argument in arguments {
            has_url |= argument.contains("%s");
            command.arg(argument.replace("%s", page.as_str()));
        }
        if !has_url {
            command.arg(page.as_str());
        }
        if let Some(name) = without {
            command.env_remove(name);
        }
        // A group of its own, so that no browser for terminals takes this one.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
    }
}

/// The desktop's own command for opening things, where there is a desktop in front of this terminal.
pub(super) fn opener(variable: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    let has = |name: &&str| variable(name).is_some_and(|value| !value.is_empty());
    let is_far = ["SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"].iter().any(has);
    let has_display = cfg!(target_os = "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(has);
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    (has_display && !is_far).then_some(opener)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(chosen: Option<&str>, variables: &[(&str, &str)]) -> Option<Vec<String>> {
        let holds = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        };
        Browser::find(chosen, holds).map(|browser| browser.words)
    }

    #[test]
    fn the_nearest_choice_counts_and_over_ssh_there_is_none() {
        let display = ("DISPLAY", ":0");
        let ssh = ("SSH_CONNECTION", "x");
        let browser = ("BROWSER", "firefox --new-window:lynx");
        let words = |text: &str| Some(text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(found(Some("my %s"), &[browser, display]), words("my %s"));
        assert_eq!(found(None, &[browser, ssh]), words("firefox --new-window"));
        assert_eq!(found(None, &[display, ssh]), None);
        assert_eq!(found(Some("  "), &[display]), None);
        if cfg!(target_os = "linux") {
            assert_eq!(found(None, &[display]), words("xdg-open"));
            assert_eq!(found(None, &[("BROWSER", ""), ("DISPLAY", "")]), None);
        }
    }

    #[test]
    fn nothing_but_a_page_of_the_web_is_opened() {
        let browser = Browser {
            words: vec!["true".to_owned()],
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
