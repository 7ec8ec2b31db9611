//! Colours by meaning: the terminal's own 16 on its own background, or none at all.

use ratatui::style::{Color, Modifier, Style};

use crate::app::{Colour, Look};

/// What a piece of text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    Strong,
    /// Labels, units, what is less important.
    Dim,
    /// Column titles and group headings.
    Heading,
    Running,
    Done,
    Needs,
    Failed,
    /// Paused, unknown, not confirmed.
    Waiting,
    Cancelled,
    /// The part of a bar that is done.
    Bar,
    /// The part that is not.
    BarRest,
    /// The cut of contact.
    Cut,
    /// The cursor's mark and the chosen item.
    Cursor,
    /// A key to press.
    Key,
    Border,
    /// The border and title of what has the keys.
    Focus,
    /// What matches the search.
    Found,
}

/// Styles for roles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    has_colour: bool,
}

impl Theme {
    pub(crate) fn of(look: Look) -> Self {
        Self {
            has_colour: look.colour != Colour::Mono,
        }
    }

    /// The style of a role.
    pub(crate) fn style(self, role: Role) -> Style {
        let plain = Style::new();
        if !self.has_colour {
            return match role {
                Role::Plain | Role::Running | Role::Bar | Role::BarRest | Role::Done => plain,
                Role::Strong | Role::Heading | Role::Key | Role::Cut | Role::Focus => {
                    plain.add_modifier(Modifier::BOLD)
                }
                Role::Failed | Role::Needs => {
                    plain.add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
                }
                Role::Dim | Role::Waiting | Role::Cancelled | Role::Border => {
                    plain.add_modifier(Modifier::DIM)
                }
                Role::Cursor | Role::Found => plain.add_modifier(Modifier::REVERSED),
            };
        }
        match role {
            Role::Plain => plain,
            Role::Strong => plain.add_modifier(Modifier::BOLD),
            Role::Dim | Role::Border | Role::BarRest | Role::Waiting | Role::Cancelled => {
                plain.add_modifier(Modifier::DIM)
            }
            Role::Heading => plain.add_modifier(Modifier::BOLD | Modifier::DIM),
            Role::Running | Role::Bar | Role::Key => plain.fg(Color::Cyan),
            Role::Done => plain.fg(Color::Green),
            Role::Needs => plain.fg(Color::Yellow).add_modifier(Modifier::BOLD),
            Role::Failed => plain.fg(Color::Red).add_modifier(Modifier::BOLD),
            Role::Cut => plain.fg(Color::Yellow),
            Role::Cursor => plain
                .fg(Color::Cyan)
                .add_modifier(Modifier::BOLD | Modifier::REVERSED),
            Role::Focus => plain.fg(Color::Cyan).add_modifier(Modifier::BOLD),
            Role::Found => plain.fg(Color::Yellow).add_modifier(Modifier::REVERSED),
        }
    }
}
