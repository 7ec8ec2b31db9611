//! `[views.NAME]`: saved filters and orders of the task list.

use toml::de::DeTable;

use crate::{
    app::{Filter, View},
    config::settings::{Parser, set},
};

/// The keys of a view.
const KEYS: &str = "filter, needs_you, group, sort, reverse";

impl Parser<'_> {
    pub(super) fn views(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            let (name, at) = (key.get_ref().as_ref(), key.span().start);
            if !View::is_name(name) {
                let why = format!("invalid view name {name:?}; use letters, digits, - and _");
                self.notice(at, &why);
            } else if let Some(table) = value.get_ref().as_table() {
                let view = self.view(name, table);
                self.config.views.push(view);
            } else {
                self.notice(at, &format!("view {name} must be a table: [views.{name}]"));
            }
        }
        self.config
            .views
            .sort_by(|one, two| one.name.cmp(&two.name));
    }

    fn view(&mut self, name: &str, table: &DeTable<'_>) -> View {
        let mut view = View {
            name: name.to_owned(),
            ..View::default()
        };
        for (key, value) in table {
            let key_text = key.get_ref().as_ref();
            match key_text {
                "filter" => {
                    view.filter = self.string(key_text, value).unwrap_or_default();
                    if let Some(why) = Filter::invalid_reason(&view.filter) {
                        self.notice(value.span().start, &why);
                    }
                }
                "needs_you" => view.needs_only = self.boolean(key_text, value).unwrap_or_default(),
                "group" => set(&mut view.grouping, self.one_of(key_text, value)),
                "sort" => set(&mut view.sort, self.one_of(key_text, value)),
                "reverse" => view.is_reversed = self.boolean(key_text, value).unwrap_or_default(),
                _ => self.unknown_key(key, "of a view", KEYS),
            }
        }
        view
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        app::{Grouping, SortKey, View},
        config::{Config, ConfigEdit},
    };

    #[test]
    fn saved_view_round_trips_and_keeps_the_rest_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        let before = "# mine\n[theme]\nname = \"dark\" # so\n";
        crate::store::write_atomically(&path, before.as_bytes()).unwrap();
        let mut view = View {
            name: "a".to_owned(),
            filter: "tag:x !status:done \"q".to_owned(),
            needs_only: true,
            grouping: Grouping::Status,
            sort: SortKey::Server,
            is_reversed: true,
        };
        for is_reversed in [true, false] {
            view.is_reversed = is_reversed;
            let mut edit = ConfigEdit::open(Some(path.clone())).unwrap();
            edit.view(&view);
            edit.save().unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.starts_with(before), "{text}");
            let config = Config::parse("f", &text).unwrap();
            assert_eq!(config.notices, [""; 0]);
            assert_eq!(config.views, [view.clone()]);
        }
    }

    #[test]
    fn applies_valid_views_and_reports_wrong_lines() {
        let text = r#"[views.nightly]
filter = "tag:nightly !status:done"
group = "server"
sort = "progress"
reverse = true
[views.mine]
needs_you = true
sort = "beauty"
colour = "red"
filter = "state:failed"
[views."two words"]
"#;
        let config = Config::parse("f", text).unwrap();
        let nightly = View {
            name: "nightly".to_owned(),
            filter: "tag:nightly !status:done".to_owned(),
            needs_only: false,
            grouping: Grouping::Server,
            sort: SortKey::Progress,
            is_reversed: true,
        };
        let mine = View {
            name: "mine".to_owned(),
            filter: "state:failed".to_owned(),
            needs_only: true,
            ..View::default()
        };
        assert_eq!(config.views, [mine, nightly]);
        let lines: Vec<&str> = config
            .notices
            .iter()
            .map(|notice| notice.split_once(' ').unwrap().0)
            .collect();
        assert_eq!(
            lines,
            ["f:8:", "f:9:", "f:10:", "f:11:"],
            "{:#?}",
            config.notices
        );
    }
}
