//! Detects what the terminal can show from environment variables, which `cli` reads once.

use super::osc::Multiplexer;
use crate::domain::{ColorChoice, DesktopProtocol, NotifyConfig};

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Use no colors.
    pub no_color: bool,
    /// Whether the locale is UTF-8; if not, only ASCII is drawn.
    pub is_unicode: bool,
    /// Whether the cursor can be moved; if not, there is no screen, only lines.
    pub has_cursor: bool,
    /// Support for desktop notifications and taskbar progress.
    pub notifications: NotificationSupport,
}

/// Whether and how the terminal passes on notifications and progress to the desktop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotificationSupport {
    /// The multiplexer between us and the terminal.
    pub multiplexer: Multiplexer,
    /// The escape sequence for desktop notifications; `None` if the terminal has none.
    pub desktop: Option<DesktopProtocol>,
    /// Whether the terminal shows progress in the taskbar.
    pub has_progress: bool,
}

impl NotificationSupport {
    /// The detected support with the user's settings applied.
    #[must_use]
    pub fn with_overrides(self, notify: &NotifyConfig) -> Self {
        let mut multiplexer = self.multiplexer;
        if let Multiplexer::Tmux { passthrough } = &mut multiplexer {
            *passthrough = notify.tmux_passthrough;
        }
        Self {
            multiplexer,
            desktop: notify.desktop_by.or(self.desktop),
            has_progress: notify.progress.unwrap_or(self.has_progress),
        }
    }
}

impl Capabilities {
    /// Detects the capabilities; the user's `choice` takes precedence. A variable that is not set is empty.
    pub fn detect(variable: impl Fn(&str) -> String, choice: ColorChoice) -> Self {
        let term = variable("TERM");
        Self {
            no_color: match choice {
                ColorChoice::Never => true,
                ColorChoice::Always => false,
                // Any value means no color (no-color.org).
                ColorChoice::Auto => is_monochrome(&term) || !variable("NO_COLOR").is_empty(),
            },
            is_unicode: is_unicode(&variable),
            has_cursor: !term.is_empty() && term != "dumb",
            notifications: notifications(variable),
        }
    }
}

fn is_monochrome(term: &str) -> bool {
    ["", "dumb", "vt52", "vt100", "vt102", "vt220"].contains(&term)
        || term.ends_with("-m")
        || term.ends_with("-mono")
}

/// Unknown terminals get neither, because they may print sequences that they don't understand.
fn notifications(variable: impl Fn(&str) -> String) -> NotificationSupport {
    let is_set = |name: &str| !variable(name).is_empty();
    let (term, program) = (variable("TERM"), variable("TERM_PROGRAM"));
    let is_program = |names: &[&str]| names.iter().any(|name| program.eq_ignore_ascii_case(name));
    // Of GNOME's terminals.
    let vte: u32 = variable("VTE_VERSION").parse().unwrap_or_default();
    let desktop = if is_set("KITTY_WINDOW_ID") || term == "xterm-kitty" {
        Some(DesktopProtocol::Osc99)
    } else if is_program(&["iTerm.app", "WezTerm", "ghostty"]) {
        Some(DesktopProtocol::Osc9)
    } else if vte > 0 || ["foot", "rxvt"].iter().any(|name| term.starts_with(name)) {
        Some(DesktopProtocol::Osc777)
    } else {
        None
    };
    NotificationSupport {
        multiplexer: if is_set("TMUX") {
            Multiplexer::Tmux { passthrough: false }
        } else {
            Multiplexer::None
        },
        desktop,
        // Windows Terminal, and VTE since 0.80.
        has_progress: is_set("WT_SESSION")
            || variable("ConEmuANSI") == "ON"
            || is_program(&["WezTerm", "ghostty"])
            || vte >= 8000,
    }
}

/// The first non-empty one of the three variables decides, as in the C library.
fn is_unicode(variable: impl Fn(&str) -> String) -> bool {
    let values = ["LC_ALL", "LC_CTYPE", "LANG"].map(|name| variable(name).to_ascii_lowercase());
    let locale = values.iter().find(|value| !value.is_empty());
    locale.is_some_and(|it| it.contains("utf-8") || it.contains("utf8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is detected from these variables.
    fn detected(variables: &[(&str, &str)], choice: ColorChoice) -> Capabilities {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map_or(String::new(), |(_, value)| (*value).to_owned())
        };
        Capabilities::detect(variable, choice)
    }

    #[test]
    fn color_depends_on_terminal_and_choice() {
        use ColorChoice::{Always, Auto, Never};
        for (term, no_color, choice, is_mono) in [
            ("xterm-256color", "", Auto, false),
            ("linux", "", Auto, false),
            ("dumb", "", Auto, true),
            ("", "", Auto, true),
            ("xterm-mono", "", Auto, true),
            ("xterm-256color", "1", Auto, true),
            ("xterm-256color", "1", Always, false),
            ("dumb", "", Always, false),
            ("xterm-256color", "", Never, true),
        ] {
            let found = detected(&[("TERM", term), ("NO_COLOR", no_color)], choice);
            assert_eq!(found.no_color, is_mono, "{term} {no_color} {choice:?}");
        }
    }

    #[test]
    fn unicode_depends_on_the_locale() {
        let unicode = |all: &str, ctype: &str, lang: &str| {
            let variables = [("LC_ALL", all), ("LC_CTYPE", ctype), ("LANG", lang)];
            detected(&variables, ColorChoice::Auto).is_unicode
        };
        assert!(unicode("", "", "en_US.UTF-8"));
        assert!(unicode("", "C.utf8", "C"));
        assert!(!unicode("C", "en_US.UTF-8", "en_US.UTF-8"));
        assert!(!unicode("", "", "de_DE.ISO-8859-1"));
        assert!(!unicode("", "", ""));
    }

    #[test]
    fn detects_notification_support() {
        let of = |name: &str, value: &str| {
            let notifications = detected(&[(name, value)], ColorChoice::Auto).notifications;
            (notifications.desktop, notifications.has_progress)
        };
        let program = |name: &str| of("TERM_PROGRAM", name);
        let term = |name: &str| of("TERM", name);
        let vte = |version: &str| of("VTE_VERSION", version);
        assert_eq!(term("xterm-256color"), (None, false));
        assert_eq!(term("xterm-kitty"), (Some(DesktopProtocol::Osc99), false));
        assert_eq!(term("foot-extra"), (Some(DesktopProtocol::Osc777), false));
        assert_eq!(program("iTerm.app"), (Some(DesktopProtocol::Osc9), false));
        assert_eq!(program("ghostty"), (Some(DesktopProtocol::Osc9), true));
        assert_eq!(vte("6800"), (Some(DesktopProtocol::Osc777), false));
        assert_eq!(vte("8002"), (Some(DesktopProtocol::Osc777), true));
    }

    #[test]
    fn user_settings_override_notification_support() {
        let notifications = detected(&[("TMUX", "/tmp/tmux")], ColorChoice::Auto).notifications;
        assert_eq!(
            notifications.with_overrides(&NotifyConfig::default()),
            notifications
        );
        let notify = NotifyConfig {
            desktop_by: Some(DesktopProtocol::Osc9),
            progress: Some(true),
            tmux_passthrough: true,
            ..NotifyConfig::default()
        };
        let wanted = NotificationSupport {
            multiplexer: Multiplexer::Tmux { passthrough: true },
            desktop: Some(DesktopProtocol::Osc9),
            has_progress: true,
        };
        assert_eq!(notifications.with_overrides(&notify), wanted);
    }

    #[test]
    fn a_dumb_terminal_has_no_cursor() {
        let of = |term: &str| detected(&[("TERM", term)], ColorChoice::Auto).has_cursor;
        assert!(of("xterm"));
        assert!(!of("dumb") && !of("") && !detected(&[], ColorChoice::Auto).has_cursor);
    }
}
