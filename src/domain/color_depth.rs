/// How many colors the terminal can show, fewest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColorDepth {
    /// No colors: only bold, underline and reverse.
    Mono,
    /// The 16 colors of the user's terminal theme.
    #[default]
    Ansi16,
    /// The xterm palette of 256 colors.
    Ansi256,
    /// 24-bit color.
    Truecolor,
}

/// When to use color.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum ColorChoice {
    /// Only on a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Even if `NO_COLOR` is set.
    Always,
    /// No color.
    Never,
}
