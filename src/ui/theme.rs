//! Colours by meaning: the terminal's own 16 on its own background, or none at all.

use ratatui::style::{Color, Modifier, Style};

use crate::app::{ColorDepth, Look};
use crate::domain::ThemeName;

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
    /// The cursor in a text, a button or choice that has the keys.
    Cursor,
    /// The chosen row, whatever its parts mean by themselves.
    Selected,
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
    /// `None` without colour.
    palette: Option<Palette>,
}

/// The colours that carry a meaning; everything else is the terminal's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Palette {
    running: Color,
    done: Color,
    /// What needs a person, the cut of contact, what was found.
    needs: Color,
    failed: Color,
}

const DARK: Palette = Palette {
    running: Color::Cyan,
    done: Color::Green,
    needs: Color::Yellow,
    failed: Color::Red,
};

/// Yellow and cyan are hard to read on white.
const LIGHT: Palette = Palette {
    running: Color::Blue,
    done: Color::Green,
    needs: Color::Magenta,
    failed: Color::Red,
};

/// Nothing is told apart by red and green: well is blue, badly is bright, and between the two lies yellow.
const COLOURBLIND: Palette = Palette {
    running: Color::Cyan,
    done: Color::Blue,
    needs: Color::Yellow,
    failed: Color::LightMagenta,
};

impl Theme {
    pub(crate) fn of(look: Look) -> Self {
        let palette = match look.theme {
            ThemeName::Mono => None,
            ThemeName::Dark => Some(DARK),
            ThemeName::Light => Some(LIGHT),
            ThemeName::Colourblind => Some(COLOURBLIND),
        };
        Self {
            palette: palette.filter(|_| look.colour != ColorDepth::Mono),
        }
    }

    /// The style of a role.
    pub(crate) fn style(self, role: Role) -> Style {
        let plain = Style::new();
        if role == Role::Selected {
            return plain
                .fg(Color::Reset)
                .remove_modifier(Modifier::DIM | Modifier::UNDERLINED)
                .add_modifier(Modifier::REVERSED);
        }
        let Some(palette) = self.palette else {
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
                Role::Cursor | Role::Found | Role::Selected => {
                    plain.add_modifier(Modifier::REVERSED)
                }
            };
        };
        match role {
            Role::Plain | Role::Selected => plain,
            Role::Strong => plain.add_modifier(Modifier::BOLD),
            Role::Dim | Role::Border | Role::BarRest | Role::Waiting | Role::Cancelled => {
                plain.add_modifier(Modifier::DIM)
            }
            Role::Heading => plain.add_modifier(Modifier::BOLD | Modifier::DIM),
            Role::Running | Role::Bar | Role::Key => plain.fg(palette.running),
            Role::Done => plain.fg(palette.done),
            Role::Needs => plain.fg(palette.needs).add_modifier(Modifier::BOLD),
            Role::Failed => plain.fg(palette.failed).add_modifier(Modifier::BOLD),
            Role::Cut => plain.fg(palette.needs),
            Role::Cursor => plain
                .fg(palette.running)
                .add_modifier(Modifier::BOLD | Modifier::REVERSED),
            Role::Focus => plain.fg(palette.running).add_modifier(Modifier::BOLD),
            Role::Found => plain.fg(palette.needs).add_modifier(Modifier::REVERSED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_theme_shows_two_meanings_in_one_colour() {
        for (name, theme) in ThemeName::ALL {
            let look = Look {
                theme,
                ..Look::default()
            };
            let Some(palette) = Theme::of(look).palette else {
                assert_eq!(theme, ThemeName::Mono);
                continue;
            };
            let colours = [palette.running, palette.done, palette.needs, palette.failed];
            for (place, colour) in colours.iter().enumerate() {
                assert!(!colours[..place].contains(colour), "{name}");
            }
            let has_red = colours.contains(&Color::Red);
            let has_green = colours.contains(&Color::Green);
            assert_eq!(
                has_red && has_green,
                theme != ThemeName::Colourblind,
                "{name}"
            );
        }
    }

    #[test]
    fn a_terminal_without_colour_has_none_in_any_theme() {
        let look = Look {
            colour: ColorDepth::Mono,
            ..Look::default()
        };
        assert_eq!(Theme::of(look).palette, None);
    }
}
