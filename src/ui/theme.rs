//! Colors by meaning: the terminal's 16 colors on its own background, or none.

use std::borrow::Cow;

use ratatui::{
    style::{Color, Modifier, Style},
    text::Span,
};

use crate::{
    app::Look,
    domain::{ThemeName, text::clean_line},
    ui::Glyphs,
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
    pub(crate) fn of_button(is_on: bool) -> Self {
        if is_on { Self::Cursor } else { Self::Key }
    }

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

/// The colors that carry meaning: running; done; what needs the user, lost connections and search matches; failed. All
/// other text has the terminal's default color.
type Palette = [Color; 4];

const DARK: Palette = [Color::Cyan, Color::Green, Color::Yellow, Color::Red];
/// Yellow and cyan are hard to read on white.
const LIGHT: Palette = [Color::Blue, Color::Green, Color::Magenta, Color::Red];
/// No meaning depends on telling red from green: success is blue, failure bright magenta.
const COLOR_BLIND: Palette = [Color::Cyan, Color::Blue, Color::Yellow, Color::LightMagenta];

impl Theme {
    pub(crate) fn of(look: Look) -> Self {
        let palette = match look.theme {
            ThemeName::Mono => None,
            ThemeName::Dark => Some(DARK),
            ThemeName::Light => Some(LIGHT),
            ThemeName::Colorblind => Some(COLOR_BLIND),
        };
        Self {
            palette: palette.filter(|_| !look.no_color),
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
        const NONE: Modifier = Modifier::empty();
        const BOLD: Modifier = Modifier::BOLD;
        const DIM: Modifier = Modifier::DIM;
        const REVERSED: Modifier = Modifier::REVERSED;
        const LOUD: Modifier = Modifier::BOLD.union(Modifier::UNDERLINED);
        let colors = self.palette.map_or([None; 4], |palette| palette.map(Some));
        let [running, done, needs, failed] = colors;
        // The color, and the modifiers with colors and in monochrome.
        let (fg, colored, mono) = match role {
            Role::Plain => (None, NONE, NONE),
            Role::Strong => (None, BOLD, BOLD),
            Role::Dim | Role::Border | Role::Waiting | Role::Cancelled => (None, DIM, DIM),
            Role::BarRest => (None, DIM, NONE),
            Role::Heading => (None, BOLD | DIM, BOLD),
            Role::Running | Role::Bar => (running, NONE, NONE),
            Role::Key => (running, NONE, BOLD),
            Role::Focus => (running, BOLD, BOLD),
            Role::Cursor => (running, BOLD | REVERSED, REVERSED),
            Role::Done => (done, NONE, NONE),
            Role::Needs => (needs, BOLD, LOUD),
            Role::Warning => (needs, NONE, BOLD),
            Role::Found => (needs, REVERSED, REVERSED),
            Role::Failed => (failed, BOLD, LOUD),
            Role::Selected => {
                return Style::new()
                    .fg(Color::Reset)
                    .remove_modifier(Modifier::DIM | Modifier::UNDERLINED)
                    .add_modifier(REVERSED);
            }
        };
        let modifier = self.palette.map_or(mono, |_| colored);
        let style = Style::new().add_modifier(modifier);
        Style { fg, ..style }
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
            let Some(colors) = Theme::of(look).palette else {
                assert_eq!(theme, ThemeName::Mono);
                continue;
            };
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
            no_color: true,
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
