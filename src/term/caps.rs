//! Detects what the terminal can show from environment variables, which `cli` reads once.

use super::osc::Multiplexer;
use crate::domain::{ColorDepth, DesktopProtocol, NotifyConfig};

/// The environment variables that describe the terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `TERM`.
    pub term: Option<String>,
    /// `COLORTERM`.
    pub colorterm: Option<String>,
    /// `NO_COLOR`; any non-empty value means no color (no-color.org).
    pub no_color: Option<String>,
    /// `LC_ALL`.
    pub lc_all: Option<String>,
    /// `LC_CTYPE`.
    pub lc_ctype: Option<String>,
    /// `LANG`.
    pub lang: Option<String>,
    /// `TMUX`.
    pub tmux: Option<String>,
    /// `TERM_PROGRAM`.
    pub term_program: Option<String>,
    /// `KITTY_WINDOW_ID`.
    pub kitty: Option<String>,
    /// `WT_SESSION`, of Windows Terminal.
    pub windows_terminal: Option<String>,
    /// `ConEmuANSI`.
    pub conemu: Option<String>,
    /// `VTE_VERSION`, of GNOME's terminals.
    pub vte: Option<String>,
}

/// The value of `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorChoice {
    /// Depends on the environment.
    #[default]
    Auto,
    /// Overrides `NO_COLOR`.
    Always,
    /// No color.
    Never,
}

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// How many colors to use.
    pub colour: ColorDepth,
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
        let multiplexer = match self.multiplexer {
            Multiplexer::None => Multiplexer::None,
            Multiplexer::Tmux { .. } => Multiplexer::Tmux {
                passthrough: notify.tmux_passthrough,
            },
        };
        Self {
            multiplexer,
            desktop: notify.desktop_by.or(self.desktop),
            has_progress: notify.progress.unwrap_or(self.has_progress),
        }
    }
}

impl Capabilities {
    /// Detects the capabilities; the user's `choice` takes precedence.
    pub fn detect(environment: &Environment, choice: ColorChoice) -> Self {
        let is_set = |variable: &Option<String>| variable.as_deref().is_some_and(|v| !v.is_empty());
        Self {
            colour: colour(environment, choice),
            is_unicode: is_unicode(environment),
            has_cursor: is_set(&environment.term) && environment.term.as_deref() != Some("dumb"),
            notifications: notifications(environment),
        }
    }
}

fn colour(environment: &Environment, choice: ColorChoice) -> ColorDepth {
    let term = environment.term.as_deref().unwrap_or_default();
    let colorterm = environment.colorterm.as_deref().unwrap_or_default();
    let is_monochrome = ["", "dumb", "vt52", "vt100", "vt102", "vt220"].contains(&term)
        || term.ends_with("-m")
        || term.ends_with("-mono");
    let level = if is_monochrome {
        ColorDepth::Mono
    } else if ["truecolor", "24bit"].contains(&colorterm) || term.ends_with("-direct") {
        ColorDepth::Truecolor
    } else if term.contains("256color") {
        ColorDepth::Ansi256
    } else {
        ColorDepth::Ansi16
    };
    let is_disabled = environment
        .no_color
        .as_deref()
        .is_some_and(|value| !value.is_empty());
    match choice {
        ColorChoice::Never => ColorDepth::Mono,
        ColorChoice::Always => level.max(ColorDepth::Ansi16),
        ColorChoice::Auto if is_disabled => ColorDepth::Mono,
        ColorChoice::Auto => level,
    }
}

/// Unknown terminals get neither, because they may print sequences that they don't understand.
fn notifications(environment: &Environment) -> NotificationSupport {
    let is_set = |variable: &Option<String>| variable.as_deref().is_some_and(|v| !v.is_empty());
    let term = environment.term.as_deref().unwrap_or_default();
    let program = environment.term_program.as_deref().unwrap_or_default();
    let is_program = |names: &[&str]| names.iter().any(|name| program.eq_ignore_ascii_case(name));
    let vte = environment.vte.as_deref().unwrap_or_default();
    let vte: u32 = vte.parse().unwrap_or_default();
    let desktop = if is_set(&environment.kitty) || term == "xterm-kitty" {
        Some(DesktopProtocol::Osc99)
    } else if is_program(&["iTerm.app", "WezTerm", "ghostty"]) {
        Some(DesktopProtocol::Osc9)
    } else if vte > 0 || ["foot", "rxvt"].iter().any(|name| term.starts_with(name)) {
        Some(DesktopProtocol::Osc777)
    } else {
        None
    };
    NotificationSupport {
        multiplexer: if is_set(&environment.tmux) {
            Multiplexer::Tmux { passthrough: false }
        } else {
            Multiplexer::None
        },
        desktop,
        // VTE since 0.80.
        has_progress: is_set(&environment.windows_terminal)
            || environment.conemu.as_deref() == Some("ON")
            || is_program(&["WezTerm", "ghostty"])
            || vte >= 8000,
    }
}

/// The first non-empty one of the three variables decides, as in the C library.
fn is_unicode(environment: &Environment) -> bool {
    [
        &environment.lc_all,
        &environment.lc_ctype,
        &environment.lang,
    ]
    .into_iter()
    .flatten()
    .find(|value| !value.is_empty())
    .is_some_and(|value| {
        let value = value.to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn color_of(term: &str, colorterm: &str, no_color: &str, choice: ColorChoice) -> ColorDepth {
        let environment = Environment {
            term: Some(term.into()),
            colorterm: Some(colorterm.into()),
            no_color: Some(no_color.into()),
            ..Environment::default()
        };
        Capabilities::detect(&environment, choice).colour
    }

    #[test]
    fn color_depends_on_terminal_and_choice() {
        use ColorChoice::{Always, Auto, Never};
        use ColorDepth::{Ansi16, Ansi256, Mono, Truecolor as True};
        for (term, colorterm, no_color, choice, level) in [
            ("xterm-256color", "truecolor", "", Auto, True),
            ("xterm-256color", "", "", Auto, Ansi256),
            ("tmux-direct", "", "", Auto, True),
            ("linux", "", "", Auto, Ansi16),
            ("dumb", "truecolor", "", Auto, Mono),
            ("", "", "", Auto, Mono),
            ("xterm-mono", "", "", Auto, Mono),
            ("xterm-256color", "truecolor", "1", Auto, Mono),
            ("xterm-256color", "truecolor", "1", Always, True),
            ("dumb", "", "", Always, Ansi16),
            ("xterm-256color", "truecolor", "", Never, Mono),
        ] {
            assert_eq!(
                color_of(term, colorterm, no_color, choice),
                level,
                "{term} {colorterm} {no_color} {choice:?}"
            );
        }
    }

    #[test]
    fn unicode_depends_on_the_locale() {
        let unicode = |all: &str, ctype: &str, lang: &str| {
            let text = |value: &str| Some(value.to_owned());
            let environment = Environment {
                lc_all: text(all),
                lc_ctype: text(ctype),
                lang: text(lang),
                ..Environment::default()
            };
            Capabilities::detect(&environment, ColorChoice::Auto).is_unicode
        };
        assert!(unicode("", "", "en_US.UTF-8"));
        assert!(unicode("", "C.utf8", "C"));
        assert!(!unicode("C", "en_US.UTF-8", "en_US.UTF-8"));
        assert!(!unicode("", "", "de_DE.ISO-8859-1"));
        assert!(!unicode("", "", ""));
    }

    #[test]
    fn detects_notification_support() {
        let text = |value: &str| Some(value.to_owned());
        let of = |environment: &Environment| {
            let notifications = Capabilities::detect(environment, ColorChoice::Auto).notifications;
            (notifications.desktop, notifications.has_progress)
        };
        let program = |name: &str| Environment {
            term_program: text(name),
            ..Environment::default()
        };
        let term = |name: &str| Environment {
            term: text(name),
            ..Environment::default()
        };
        let vte = |version: &str| Environment {
            vte: text(version),
            ..Environment::default()
        };
        assert_eq!(of(&term("xterm-256color")), (None, false));
        assert_eq!(
            of(&term("xterm-kitty")),
            (Some(DesktopProtocol::Osc99), false)
        );
        assert_eq!(
            of(&term("foot-extra")),
            (Some(DesktopProtocol::Osc777), false)
        );
        assert_eq!(
            of(&program("iTerm.app")),
            (Some(DesktopProtocol::Osc9), false)
        );
        assert_eq!(of(&program("ghostty")), (Some(DesktopProtocol::Osc9), true));
        assert_eq!(of(&vte("6800")), (Some(DesktopProtocol::Osc777), false));
        assert_eq!(of(&vte("8002")), (Some(DesktopProtocol::Osc777), true));
    }

    #[test]
    fn user_settings_override_notification_support() {
        let tmux = Environment {
            tmux: Some("/tmp/tmux".to_owned()),
            ..Environment::default()
        };
        let notifications = Capabilities::detect(&tmux, ColorChoice::Auto).notifications;
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
        let of = |term: Option<&str>| {
            let environment = Environment {
                term: term.map(str::to_owned),
                ..Environment::default()
            };
            Capabilities::detect(&environment, ColorChoice::Auto).has_cursor
        };
        assert!(of(Some("xterm")));
        assert!(!of(Some("dumb")) && !of(Some("")) && !of(None));
    }
}
