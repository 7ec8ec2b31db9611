//! `[keys]`: the keys of the screen that the user wants.

use toml::{Spanned, de::DeValue};

use super::Reading;
use crate::app::{KeyOverride, Keymap};

impl Reading<'_> {
    pub(super) fn keys(&mut self, at: usize, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            return self.remark(at, "the keys are a table; write [keys]");
        };
        let mut wishes = Vec::new();
        for (key, value) in table {
            let word = key.get_ref().as_ref();
            match chords(value.get_ref()) {
                Some(chords) => {
                    let word = word.to_owned();
                    wishes.push((
                        key.span().start,
                        KeyOverride {
                            action: word,
                            chords,
                        },
                    ));
                }
                None => self.remark(
                    value.span().start,
                    &format!("{word} is ignored: a key is a text in quotes, or a list of them"),
                ),
            }
        }
        // Of two lines for one key the first holds.
        wishes.sort_by_key(|(at, _)| *at);
        let (places, wishes): (Vec<usize>, Vec<KeyOverride>) = wishes.into_iter().unzip();
        let (keys, said) = Keymap::with_overrides(&wishes);
        for (line, why) in said {
            self.remark(places.get(line).copied().unwrap_or(at), &why);
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
        cli::config::Config,
    };

    #[test]
    fn what_the_file_says_of_keys_holds_and_each_wrong_line_is_named() {
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
            config.remarks,
            [
                "f:5: again is ignored: a key is a text in quotes, or a list of them",
                "f:6: wrap is ignored: a key is a text in quotes, or a list of them",
                "f:7: rm is ignored: Delete is already the key of cancel",
                "f:8: forward is ignored: unknown action; press : for the names",
                "f:9: zoom takes y from copy, which has no key now",
            ]
        );
        let config = Config::parse("f", "keys = 3").unwrap();
        assert_eq!(config.remarks, ["f:1: the keys are a table; write [keys]"]);
    }
}
