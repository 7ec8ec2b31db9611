//! Colors by meaning: the terminal's 16 colors on its own background, or none.

use std::borrow::Cow;

use ratatui::{
    style::{Color, Modifier, Style},
    text::Span,
};

use super::glyphs::Glyphs;
use crate::{
    app::{ColorDepth, Look},
    domain::{ThemeName, text::clean_line},
};

/// The meaning of a piece of text, which determines its style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    Strong,
    /// Labels, units and other secondary text.
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
    /// The completed part of a bar.
    Bar,
    /// The remaining part of a bar.
    BarRest,
    /// A lost connection, or a warning.
    Warning,
    /// The text cursor, or the focused button or choice.
    Cursor,
    /// The selected row; overrides the styles of its parts.
    Selected,
    /// A key to press.
    Key,
    Border,
    /// The border and title of the focused pane.
    Focus,
    /// A search match.
    Found,
}

impl Role {
    /// Of a choice in a list, which is the selected one or not, and can be chosen or not.
    pub(crate) fn of_choice(is_on: bool, can: bool) -> Self {
        match (is_on, can) {
            (true, _) => Self::Strong,
            (false, true) => Self::Plain,
            (false, false) => Self::Dim,
        }
    }
}

/// Maps roles to styles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    /// `None` for monochrome.
    palette: Option<Palette>,
    pub(crate) glyphs: &'static Glyphs,
}

/// The colors that carry meaning; all other text has the terminal's default color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Palette {
    running: Color,
    done: Color,
    /// Needs the user, lost connections and search matches.
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

/// No meaning depends on telling red from green: success is blue, failure bright magenta.
const COLOR_BLIND: Palette = Palette {
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
            ThemeName::Colorblind => Some(COLOR_BLIND),
        };
        Self {
            palette: palette.filter(|_| look.colour != ColorDepth::Mono),
            glyphs: Glyphs::of(look),
        }
    }

    /// Text in a role. All text passes here, so no control sequence reaches the terminal even if a caller forgot to clean
    /// it.
    pub(crate) fn span<'t>(self, text: impl Into<Cow<'t, str>>, role: Role) -> Span<'t> {
        let text = text.into();
        let cleaned = match clean_line(&text) {
            Cow::Owned(cleaned) => Some(cleaned),
            Cow::Borrowed(_) => None,
        };
        Span::styled(cleaned.map_or(text, Cow::Owned), self.style(role))
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
                Role::Strong | Role::Heading | Role::Key | Role::Warning | Role::Focus => {
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
            Role::Warning => plain.fg(palette.needs),
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
    fn themes_use_distinct_colors_for_distinct_meanings() {
        for theme in <ThemeName as strum::VariantArray>::VARIANTS.iter().copied() {
            let name: &str = theme.into();
            let look = Look {
                theme,
                ..Look::default()
            };
            let Some(palette) = Theme::of(look).palette else {
                assert_eq!(theme, ThemeName::Mono);
                continue;
            };
            let colors = [palette.running, palette.done, palette.needs, palette.failed];
            for (index, color) in colors.iter().enumerate() {
                assert!(!colors[..index].contains(color), "{name}");
            }
            let has_red = colors.contains(&Color::Red);
            let has_green = colors.contains(&Color::Green);
            assert_eq!(
                has_red && has_green,
                theme != ThemeName::Colorblind,
                "{name}"
            );
        }
    }

    #[test]
    fn monochrome_terminals_get_no_colors_in_any_theme() {
        let look = Look {
            colour: ColorDepth::Mono,
            ..Look::default()
        };
        assert_eq!(Theme::of(look).palette, None);
    }

    #[test]
    fn sanitizes_text_that_a_pane_did_not() {
        let theme = Theme::of(Look::default());
        let span = theme.span("a\u{1b}[2J\u{9b}\u{202e}\u{e0041}\tb", Role::Plain);
        assert_eq!(span.content, "a\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd} b");
    }
}
