//! A screen as a picture, and as much of XML as it takes to look at one.

use std::fmt::Write as _;

use vt100::{Cell, Color, Screen};

/// Width and height of a cell. A monospaced letter of 14 is 8.43 wide; where a font differs, `textLength` puts it right.
const CELL: (f32, f32) = (8.43, 18.0);
/// The baseline of a letter in its cell.
const BASE: f32 = 13.5;
/// The window around the cells: its left and right, its top with the title, its bottom.
const FRAME: (f32, f32, f32) = (16.0, 44.0, 14.0);

const GROUND: &str = "#12151c";
const TITLE_BAR: &str = "#1b202a";
const EDGE: &str = "#2c3442";
const LETTER: &str = "#d3d9e4";
/// The sixteen colours of a terminal that is easy on the eye.
const PALETTE: [&str; 16] = [
    "#2b313d", "#ef6b73", "#8ccf7e", "#e5c76b", "#67b0e8", "#c47fd5", "#6cd0d6", "#c5ccd8",
    "#5a6375", "#ff8a91", "#a6e29a", "#f4dc8f", "#8cc6f2", "#d9a0e6", "#93e6ea", "#f2f5fa",
];

/// The screen as an SVG that looks the same in every viewer: blocks and lines are drawn, letters are text.
pub(crate) fn draw(screen: &Screen, title: &str) -> String {
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let (side, top, bottom) = FRAME;
    let width = side * 2.0 + CELL.0 * f32::from(columns);
    let height = top + bottom + CELL.1 * f32::from(rows);
    let mut svg = String::new();
    writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.1} {height:.1}" font-family="ui-monospace, 'SF Mono', Menlo, 'DejaVu Sans Mono', Consolas, monospace" font-size="14">"#
    )
    .unwrap();
    writeln!(
        svg,
        r#"<rect x="0.5" y="0.5" width="{:.1}" height="{:.1}" rx="10" fill="{GROUND}" stroke="{EDGE}"/>"#,
        width - 1.0,
        height - 1.0
    )
    .unwrap();
    writeln!(
        svg,
        r#"<path d="M1 32V11a10 10 0 0 1 10-10H{:.1}a10 10 0 0 1 10 10v21z" fill="{TITLE_BAR}"/>"#,
        width - 11.0
    )
    .unwrap();
    for (place, colour) in ["#ef6b73", "#e5c76b", "#8ccf7e"].into_iter().enumerate() {
        writeln!(
            svg,
            r#"<circle cx="{}" cy="16.5" r="5.5" fill="{colour}"/>"#,
            20 + place * 19
        )
        .unwrap();
    }
    writeln!(
        svg,
        r##"<text x="{:.1}" y="21" text-anchor="middle" fill="#8a94a6">{}</text>"##,
        width / 2.0,
        escaped(title)
    )
    .unwrap();
    writeln!(
        svg,
        r#"<g transform="translate({side} {top})" xml:space="preserve">"#
    )
    .unwrap();
    for row in 0..rows {
        grounds(&mut svg, screen, row, columns);
        letters(&mut svg, screen, row, columns);
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// How a cell is painted: its letter's colour and strength, and its ground if it has one.
#[derive(Clone, PartialEq)]
struct Paint {
    letter: String,
    ground: Option<String>,
    is_bold: bool,
    is_dim: bool,
    is_underlined: bool,
}

impl Paint {
    fn of(cell: &Cell) -> Self {
        let (mut letter, mut ground) = (colour(cell.fgcolor()), colour(cell.bgcolor()));
        if cell.inverse() {
            (letter, ground) = (
                Some(ground.unwrap_or_else(|| GROUND.to_owned())),
                Some(letter.unwrap_or_else(|| LETTER.to_owned())),
            );
        }
        Self {
            letter: letter.unwrap_or_else(|| LETTER.to_owned()),
            ground,
            is_bold: cell.bold(),
            is_dim: cell.dim(),
            is_underlined: cell.underline(),
        }
    }

    /// The attributes of an element of this paint.
    fn attributes(&self) -> String {
        let mut attributes = format!(r#" fill="{}""#, self.letter);
        if self.is_bold {
            attributes.push_str(r#" font-weight="bold""#);
        }
        if self.is_dim {
            attributes.push_str(r#" opacity="0.58""#);
        }
        if self.is_underlined {
            attributes.push_str(r#" text-decoration="underline""#);
        }
        attributes
    }
}

fn colour(colour: Color) -> Option<String> {
    match colour {
        Color::Default => None,
        Color::Idx(number @ 0..16) => Some(PALETTE[usize::from(number)].to_owned()),
        Color::Idx(number @ 16..232) => {
            let level = |step: u8| if step == 0 { 0 } else { 55 + step * 40 };
            let number = number - 16;
            let (red, green, blue) = (number / 36, number / 6 % 6, number % 6);
            Some(format!(
                "#{:02x}{:02x}{:02x}",
                level(red),
                level(green),
                level(blue)
            ))
        }
        Color::Idx(number) => {
            let grey = 8 + (number - 232) * 10;
            Some(format!("#{grey:02x}{grey:02x}{grey:02x}"))
        }
        Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
    }
}

fn left(column: u16) -> f32 {
    f32::from(column) * CELL.0
}

fn above(row: u16) -> f32 {
    f32::from(row) * CELL.1
}

fn grounds(svg: &mut String, screen: &Screen, row: u16, columns: u16) {
    let ground = |column: u16| {
        screen
            .cell(row, column)
            .and_then(|cell| Paint::of(cell).ground)
    };
    let mut column = 0;
    while column < columns {
        let Some(colour) = ground(column) else {
            column += 1;
            continue;
        };
        let begin = column;
        while column < columns && ground(column).as_ref() == Some(&colour) {
            column += 1;
        }
        writeln!(
            svg,
            r#"<rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill="{colour}"/>"#,
            left(begin),
            above(row),
            left(column) - left(begin),
            CELL.1
        )
        .unwrap();
    }
}

fn letters(svg: &mut String, screen: &Screen, row: u16, columns: u16) {
    let mut column = 0;
    while column < columns {
        let Some(cell) = screen.cell(row, column).filter(|cell| cell.has_contents()) else {
            column += 1;
            continue;
        };
        let paint = Paint::of(cell);
        let text = cell.contents();
        if text == " " {
            column += 1;
        } else if let Some(shape) = shape(text) {
            // The same sign again and again is one shape.
            let begin = column;
            let is_same = |column: u16| {
                screen
                    .cell(row, column)
                    .is_some_and(|other| other.contents() == text && Paint::of(other) == paint)
            };
            while column < columns && is_same(column) {
                column += 1;
            }
            shape.draw(svg, row, begin..column, &paint);
        } else if text.is_ascii() {
            let begin = column;
            let mut run = String::new();
            while let Some(next) = word(screen, row, column, &paint) {
                run.push_str(next);
                column += 1;
            }
            write_text(svg, row, begin..column, &run, &paint);
        } else {
            let end = column + if cell.is_wide() { 2 } else { 1 };
            write_text(svg, row, column..end, text, &paint);
            column = end;
        }
    }
}

/// A letter that goes on with a run of text: ASCII of the same paint, or a single space before one.
fn word<'s>(screen: &'s Screen, row: u16, column: u16, paint: &Paint) -> Option<&'s str> {
    let letter = |column: u16| {
        let cell = screen.cell(row, column)?;
        let text = cell.contents();
        let is_word = text != " " && text.is_ascii() && cell.has_contents();
        (is_word && Paint::of(cell) == *paint).then_some(text)
    };
    let cell = screen.cell(row, column)?;
    let is_space = !cell.has_contents() || cell.contents() == " ";
    if is_space && Paint::of(cell).ground == paint.ground {
        letter(column + 1).map(|_| " ")
    } else {
        letter(column)
    }
}

fn write_text(
    svg: &mut String,
    row: u16,
    columns: std::ops::Range<u16>,
    text: &str,
    paint: &Paint,
) {
    writeln!(
        svg,
        r#"<text x="{:.1}" y="{:.1}" textLength="{:.1}" lengthAdjust="spacingAndGlyphs"{}>{}</text>"#,
        left(columns.start),
        above(row) + BASE,
        left(columns.end) - left(columns.start),
        paint.attributes(),
        escaped(text)
    )
    .unwrap();
}

/// A sign that fonts draw with gaps, so that it is drawn as what it means.
enum Shape {
    /// A part of the cell's height from below, so strong.
    Block(f32, f32),
    /// A line from left to right, so thick.
    Level(f32),
    /// The same, broken.
    Broken(f32),
    /// Lines from the middle to these sides: left, right, up, down.
    Corner(bool, bool, bool, bool),
}

fn shape(text: &str) -> Option<Shape> {
    Some(match text {
        "█" => Shape::Block(1.0, 1.0),
        "▓" => Shape::Block(1.0, 0.75),
        "▒" => Shape::Block(1.0, 0.5),
        "░" => Shape::Block(1.0, 0.25),
        "▁" => Shape::Block(0.125, 1.0),
        "▂" => Shape::Block(0.25, 1.0),
        "▃" => Shape::Block(0.375, 1.0),
        "▄" => Shape::Block(0.5, 1.0),
        "▅" => Shape::Block(0.625, 1.0),
        "▆" => Shape::Block(0.75, 1.0),
        "▇" => Shape::Block(0.875, 1.0),
        "─" => Shape::Level(1.2),
        "━" => Shape::Level(2.6),
        "╍" => Shape::Broken(2.6),
        "│" => Shape::Corner(false, false, true, true),
        "┌" => Shape::Corner(false, true, false, true),
        "┐" => Shape::Corner(true, false, false, true),
        "└" => Shape::Corner(false, true, true, false),
        "┘" => Shape::Corner(true, false, true, false),
        _ => return None,
    })
}

impl Shape {
    fn draw(&self, svg: &mut String, row: u16, columns: std::ops::Range<u16>, paint: &Paint) {
        let (begin, end, top) = (left(columns.start), left(columns.end), above(row));
        let middle = top + CELL.1 / 2.0;
        let dim = if paint.is_dim { 0.58 } else { 1.0 };
        let fill = &paint.letter;
        match *self {
            Self::Block(part, strength) => {
                // Bars of two rows keep a gap, as the lines of a text do.
                let high = (CELL.1 - 4.0) * part;
                writeln!(
                    svg,
                    r#"<rect x="{begin:.1}" y="{:.1}" width="{:.1}" height="{high:.1}" fill="{fill}" opacity="{:.2}"/>"#,
                    top + CELL.1 - 2.0 - high,
                    end - begin,
                    strength * dim
                )
                .unwrap();
            }
            Self::Level(thick) => line(svg, (begin, middle), (end, middle), thick, fill, dim, ""),
            Self::Broken(thick) => {
                let dashes = r#" stroke-dasharray="2.6 1.6""#;
                line(
                    svg,
                    (begin, middle),
                    (end, middle),
                    thick,
                    fill,
                    dim,
                    dashes,
                );
            }
            Self::Corner(to_left, to_right, up, down) => {
                for column in columns {
                    let (x, y) = (left(column) + CELL.0 / 2.0, middle);
                    for (is_there, end) in [
                        (to_left, (left(column), y)),
                        (to_right, (left(column + 1), y)),
                        (up, (x, top)),
                        (down, (x, top + CELL.1)),
                    ] {
                        if is_there {
                            line(svg, (x, y), end, 1.2, fill, dim, "");
                        }
                    }
                }
            }
        }
    }
}

fn line(
    svg: &mut String,
    from: (f32, f32),
    to: (f32, f32),
    thick: f32,
    fill: &str,
    dim: f32,
    more: &str,
) {
    writeln!(
        svg,
        r#"<path d="M{:.1} {:.1}L{:.1} {:.1}" stroke="{fill}" stroke-width="{thick}" opacity="{dim}"{more}/>"#,
        from.0, from.1, to.0, to.1
    )
    .unwrap();
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The text of an XML document as far as we write it; `None` if it is not well-formed.
pub(crate) fn text_of(document: &str) -> Option<String> {
    let mut open = Vec::new();
    let mut text = String::new();
    let mut rest = document;
    while !rest.is_empty() {
        let (before, after) = rest.split_once('<').unwrap_or((rest, ""));
        text.push_str(&unescaped(before)?);
        if after.is_empty() {
            break;
        }
        let (tag, after) = after.split_once('>')?;
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop()? != name {
                return None;
            }
            continue;
        }
        let inner = tag.strip_suffix('/').unwrap_or(tag);
        let (name, attributes) = inner.split_once(' ').unwrap_or((inner, ""));
        check_attributes(attributes)?;
        if inner == tag {
            open.push(name);
        }
    }
    open.is_empty().then_some(text)
}

fn check_attributes(mut attributes: &str) -> Option<()> {
    while !attributes.trim().is_empty() {
        let (name, after) = attributes.trim_start().split_once("=\"")?;
        let (value, after) = after.split_once('"')?;
        if name.contains(char::is_whitespace) || value.contains('<') {
            return None;
        }
        attributes = after;
    }
    Some(())
}

fn unescaped(text: &str) -> Option<String> {
    let plain = text.replace("&lt;", "<").replace("&gt;", ">");
    let is_bare = |part: &str| !part.starts_with("amp;");
    if plain.split('&').skip(1).any(is_bare) {
        return None;
    }
    Some(plain.replace("&amp;", "&"))
}
