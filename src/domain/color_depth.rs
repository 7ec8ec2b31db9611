//! How many colours a terminal has.

/// How many colours, fewest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColorDepth {
    /// None at all: bold, underline and reverse only.
    Mono,
    /// The 16 of the user's own theme.
    Ansi16,
    /// The 256 of xterm.
    Ansi256,
    /// 16 million.
    Truecolor,
}
