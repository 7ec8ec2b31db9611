//! A terminal session as an SVG that moves: each piece of text is shown for as long as it stood on the screen, in a loop.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    time::Duration,
};

use unicode_width::UnicodeWidthStr as _;
use vt100::{Cell, Color, Screen};

/// Width and height of a cell in pixels, for a monospaced font of 14 px.
const CELL: (f32, f32) = (8.43, 16.4);
/// The baseline of the text, measured from the top of its cell.
const BASELINE: f32 = 12.8;
const MARGIN: f32 = 14.0;
const BACKGROUND: &str = "#12151c";
const FOREGROUND: &str = "#d3d9e4";
const PALETTE: [&str; 16] = [
    "#2b313d", "#ef6b73", "#8ccf7e", "#e5c76b", "#67b0e8", "#c47fd5", "#6cd0d6", "#c5ccd8",
    "#5a6375", "#ff8a91", "#a6e29a", "#f4dc8f", "#8cc6f2", "#d9a0e6", "#93e6ea", "#f2f5fa",
];
/// The time between two states of the screen.
const STEP: Duration = Duration::from_millis(150);
/// How long the last state stays before the loop starts again.
const PAUSE: Duration = Duration::from_secs(3);

type Span = (Duration, Duration);

/// A piece of text in one style, as SVG, with its row.
type Piece = (u16, String);

/// What one or several terminals showed one after the other.
pub(crate) struct Recording {
    size: (u16, u16),
    /// When each piece was shown.
    pieces: BTreeMap<Piece, Vec<Span>>,
    /// What is shown now, and since when.
    current: BTreeMap<Piece, Duration>,
    end: Duration,
    poster: Duration,
}

impl Recording {
    /// An empty recording of a terminal with this many columns and rows.
    pub(crate) fn new(size: (u16, u16)) -> Self {
        Self {
            size,
            pieces: BTreeMap::new(),
            current: BTreeMap::new(),
            end: Duration::ZERO,
            poster: Duration::ZERO,
        }
    }

    /// Adds what a terminal showed: all its bytes, and how many of them had arrived at which time after it was opened.
    pub(crate) fn add(&mut self, bytes: &[u8], arrivals: &[(Duration, usize)]) {
        let begin = self.end;
        let (columns, rows) = self.size;
        let mut terminal =
            vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 0);
        let (mut shown, mut sampled) = (0, Duration::ZERO);
        for (index, &(at, count)) in arrivals.iter().enumerate() {
            terminal.process(&bytes[shown..count]);
            shown = count;
            let next = arrivals.get(index + 1).map(|(next, _)| *next);
            if next.is_none_or(|next| next.saturating_sub(sampled) >= STEP) {
                sampled = at;
                self.sample(begin + at, terminal.screen());
            }
        }
    }

    /// Viewers that show no motion show this moment of the terminal that is added next.
    pub(crate) fn mark_poster(&mut self, after: Duration) {
        self.poster = self.end + after;
    }

    fn sample(&mut self, at: Duration, screen: &Screen) {
        let rows = 0..self.size.1;
        let shown: BTreeSet<Piece> = rows
            .flat_map(|row| draw_row(screen, row, self.size.0))
            .collect();
        for piece in &shown {
            self.current.entry(piece.clone()).or_insert(at);
        }
        let before = std::mem::take(&mut self.current);
        for (piece, since) in before {
            if shown.contains(&piece) {
                self.current.insert(piece, since);
            } else {
                self.pieces.entry(piece).or_default().push((since, at));
            }
        }
        self.end = at;
    }

    /// The recording as one SVG file.
    pub(crate) fn into_svg(mut self) -> String {
        let total = self.end + PAUSE;
        for (piece, since) in std::mem::take(&mut self.current) {
            self.pieces.entry(piece).or_default().push((since, total));
        }
        let width = MARGIN.mul_add(2.0, CELL.0 * f32::from(self.size.0));
        let height = MARGIN.mul_add(2.0, CELL.1 * f32::from(self.size.1));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-size=\"14\" \
             font-family=\"ui-monospace, 'SF Mono', Menlo, 'DejaVu Sans Mono', Consolas, monospace\">\n\
             <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n\
             <g transform=\"translate({MARGIN} {MARGIN})\" fill=\"{FOREGROUND}\">\n"
        );
        let mut pieces: Vec<_> = self.pieces.iter().collect();
        // Backgrounds come first, or they would cover the text.
        pieces
            .sort_by_key(|((row, drawn), spans)| (*row, drawn.starts_with("<text"), spans.first()));
        for ((row, drawn), spans) in pieces {
            let is_poster = spans
                .iter()
                .any(|(from, to)| (*from..*to).contains(&self.poster));
            let display = if is_poster { "" } else { " display=\"none\"" };
            let y = CELL.1 * f32::from(*row);
            let animation = animation(spans, total);
            writeln!(
                svg,
                "<g transform=\"translate(0 {y:.1})\"{display}>{animation}{drawn}</g>"
            )
            .unwrap();
        }
        svg.push_str("</g>\n</svg>\n");
        svg
    }
}

/// Shows an element during these spans of the loop.
fn animation(spans: &[Span], total: Duration) -> String {
    let (mut values, mut times) = (Vec::new(), Vec::new());
    let at = |time: Duration| format!("{:.4}", time.as_secs_f32() / total.as_secs_f32());
    if spans.first().is_some_and(|(from, _)| !from.is_zero()) {
        values.push("none");
        times.push("0".to_owned());
    }
    for (from, to) in spans {
        values.push("inline");
        times.push(at(*from));
        if *to < total {
            values.push("none");
            times.push(at(*to));
        }
    }
    if let Some(first) = times.first_mut() {
        "0".clone_into(first);
    }
    format!(
        "<animate attributeName=\"display\" values=\"{}\" keyTimes=\"{}\" dur=\"{:.1}s\" calcMode=\"discrete\" \
         repeatCount=\"indefinite\"/>",
        values.join(";"),
        times.join(";"),
        total.as_secs_f32()
    )
}

/// The pieces of a row: runs of cells in the same style, each a `text` with a `rect` behind it if it has a background.
fn draw_row(screen: &Screen, row: u16, columns: u16) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut column = 0;
    while column < columns {
        let start = column;
        let mut text = String::new();
        let style = screen.cell(row, column).map(Style::of).unwrap_or_default();
        while let Some(cell) = screen.cell(row, column)
            && column < columns
            && Style::of(cell) == style
        {
            if !cell.is_wide_continuation() {
                text.push_str(if cell.has_contents() {
                    cell.contents()
                } else {
                    " "
                });
            }
            column += 1;
        }
        column = column.max(start + 1);
        if let Some(color) = &style.background {
            let (x, width) = (
                CELL.0 * f32::from(start),
                CELL.0 * f32::from(column - start),
            );
            let height = CELL.1;
            pieces.push((
                row,
                format!(
                    "<rect x=\"{x:.1}\" width=\"{width:.1}\" height=\"{height}\" fill=\"{color}\"/>"
                ),
            ));
        }
        let attributes = style.attributes();
        // SVG collapses spaces, so a text ends before two of them.
        let mut x = CELL.0 * f32::from(start);
        for part in text.split("  ") {
            let (words, width) = (part.trim(), CELL.0 * cells(part.trim()));
            if !words.is_empty() {
                let from = x + CELL.0 * cells(part.split(words).next().unwrap_or_default());
                let words = escape(words);
                pieces.push((
                    row,
                    format!("<text x=\"{from:.1}\" y=\"{BASELINE}\" textLength=\"{width:.1}\"{attributes}>{words}</text>"),
                ));
            }
            x += CELL.0 * (cells(part) + 2.0);
        }
    }
    pieces
}

/// How many cells a text covers.
fn cells(text: &str) -> f32 {
    f32::from(u16::try_from(text.width()).unwrap())
}

#[derive(Default, PartialEq)]
struct Style {
    foreground: Option<String>,
    background: Option<String>,
    is_bold: bool,
    is_dim: bool,
    is_underlined: bool,
}

impl Style {
    fn of(cell: &Cell) -> Self {
        let (mut foreground, mut background) = (color(cell.fgcolor()), color(cell.bgcolor()));
        if cell.inverse() {
            (foreground, background) = (
                Some(background.unwrap_or_else(|| BACKGROUND.to_owned())),
                Some(foreground.unwrap_or_else(|| FOREGROUND.to_owned())),
            );
        }
        Self {
            foreground,
            background,
            is_bold: cell.bold(),
            is_dim: cell.dim(),
            is_underlined: cell.underline(),
        }
    }

    fn attributes(&self) -> String {
        let mut attributes = String::new();
        if let Some(color) = &self.foreground {
            write!(attributes, " fill=\"{color}\"").unwrap();
        }
        for (is_set, attribute) in [
            (self.is_bold, " font-weight=\"bold\""),
            (self.is_dim, " opacity=\"0.58\""),
            (self.is_underlined, " text-decoration=\"underline\""),
        ] {
            if is_set {
                attributes.push_str(attribute);
            }
        }
        attributes
    }
}

/// A terminal color as CSS; `None` for the default.
fn color(color: Color) -> Option<String> {
    match color {
        Color::Default => None,
        Color::Idx(index @ 0..16) => Some(PALETTE[usize::from(index)].to_owned()),
        Color::Idx(index @ 16..232) => {
            let level = |step: u8| if step == 0 { 0 } else { 55 + step * 40 };
            let index = index - 16;
            let (red, green, blue) = (level(index / 36), level(index / 6 % 6), level(index % 6));
            Some(format!("#{red:02x}{green:02x}{blue:02x}"))
        }
        Color::Idx(index) => {
            let gray = 8 + (index - 232) * 10;
            Some(format!("#{gray:02x}{gray:02x}{gray:02x}"))
        }
        Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The pieces of text in a picture of ours.
pub(crate) fn texts(svg: &str) -> Vec<String> {
    let pieces = svg.lines().filter(|line| line.contains("<animate"));
    let text = |piece: &str| {
        let parts = piece.split('<').filter_map(|part| part.split_once('>'));
        let text: String = parts.map(|(_, text)| text).collect();
        text.replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&")
    };
    pieces.map(text).collect()
}
