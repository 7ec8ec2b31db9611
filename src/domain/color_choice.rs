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
