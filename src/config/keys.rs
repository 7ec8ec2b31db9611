//! `[keys]`: key bindings of the screen.

use toml::de::{DeTable, DeValue};

use crate::{
    app::{KeyOverride, Keymap},
    config::settings::Parser,
};

impl Parser<'_> {
    pub(super) fn keys(&mut self, at: usize, table: &DeTable<'_>) {
        let mut overrides = Vec::new();
        for (key, value) in table {
            let word = key.get_ref().as_ref();
            match chords(value.get_ref()) {
                Some(chords) => {
                    let action = word.to_owned();
                    overrides.push((key.span().start, KeyOverride { action, chords }));
                }
                None => self.notice(
                    value.span().start,
                    &format!("{word} is ignored: expected a key in quotes, or a list of keys"),
                ),
            }
        }
        // If two lines bind the same key, the first wins.
        overrides.sort_by_key(|(at, _)| *at);
        let (offsets, overrides): (Vec<usize>, Vec<KeyOverride>) = overrides.into_iter().unzip();
        let (keys, problems) = Keymap::with_overrides(&overrides);
        for (index, why) in problems {
            self.notice(offsets.get(index).copied().unwrap_or(at), &why);
        }
        self.config.keys = keys;
    }
}

fn chords(value: &DeValue<'_>) -> Option<Vec<String>> {
    if let Some(chord) = value.as_str() {
        return Some(vec![chord.to_owned()]);
    }
    let chords = value.as_array()?.iter();
    chords
        .map(|chord| chord.get_ref().as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::{
        app::{Action, keymap::Scope},
        config::Config,
    };

    #[test]
    fn applies_valid_keys_and_reports_wrong_lines() {
        let text = r#"[keys]
cancel = ["x", "delete"]
pause = "ctrl-p"
undo = []
again = 7
wrap = ["w", 7]
rm = "delete"
forward = "f5"
zoom = "y"
"#;
        let config = Config::parse("f", text).unwrap();
        let does = |chord: &str| config.keys.lookup(Scope::List, chord.parse().unwrap());
        assert_eq!(does("ctrl-p"), Some(Action::Pause));
        assert_eq!(does("delete"), Some(Action::Cancel));
        assert_eq!(does("D"), Some(Action::Forget));
        assert_eq!(does("y"), Some(Action::Zoom));
        assert_eq!(does("u"), None);
        assert_eq!(
            config.notices,
            [
                "f:5: again is ignored: expected a key in quotes, or a list of keys",
                "f:6: wrap is ignored: expected a key in quotes, or a list of keys",
                "f:7: rm is ignored: Delete is already the key of cancel",
                "f:8: forward is ignored: unknown action; press : on the screen for the names",
                "f:9: y now means `zoom`; `copy` has no key now; give it one in [keys]",
            ]
        );
        let config = Config::parse("f", "keys = 3").unwrap();
        assert_eq!(config.notices, ["f:1: keys must be a table: [keys]"]);
    }
}
