//! The filter of the list.

use std::borrow::Cow;

use strum::VariantNames as _;

use crate::domain::{Connectivity, Stamp, Status, Task};

use super::task_row::{TaskRow, short_arguments};

/// The values of `status:`: a status, a pending request, or the connectivity.
const STATUS_VALUES: &str = "\
    queued, running, input-required, asking, paused, completed, done, failed, cancelled, lost, unknown, pausing, \
    resuming, cancelling, live, quiet, reconnecting, offline, needs-login, unwatched, idle";

/// A filter: words, `!x`, `status:failed`, `server:lab`, `tag:x`, `by:claude-code`. A task must match all terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    text: String,
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    is_negated: bool,
    field: Option<TermField>,
    text: String,
}

/// The key of a term such as `status:failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "lowercase")]
enum TermField {
    Status,
    Server,
    Tag,
    Tool,
    Id,
    #[strum(to_string = "from", serialize = "by")]
    From,
    #[strum(serialize = "dir")]
    Directory,
}

impl Filter {
    /// Parses a filter. Every text is valid; [`Self::invalid_reason`] finds likely mistakes.
    pub fn parse(typed: &str) -> Self {
        let terms = typed
            .split_whitespace()
            .filter_map(|word| {
                let (is_negated, word) = match word.strip_prefix('!') {
                    Some(rest) => (true, rest),
                    None => (false, word),
                };
                let named = word
                    .split_once(':')
                    .and_then(|(name, rest)| Some((name.parse().ok()?, rest)));
                let (field, text) = named.map_or((None, word), |(field, rest)| (Some(field), rest));
                // A term that is still being typed, e.g. `tag:`, matches everything.
                (!text.is_empty()).then(|| Term {
                    is_negated,
                    field,
                    text: text.to_lowercase(),
                })
            })
            .collect();
        Self {
            text: typed.to_owned(),
            terms,
        }
    }

    /// Returns an error message for an unknown key or status in a complete filter.
    pub fn invalid_reason(typed: &str) -> Option<String> {
        typed.split_whitespace().find_map(|word| {
            let (key, rest) = word.strip_prefix('!').unwrap_or(word).split_once(':')?;
            let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphabetic());
            // `http://...` and `host:8080` are plain words, not terms with a key.
            let is_address = rest.starts_with("//") || rest.bytes().all(|it| it.is_ascii_digit());
            if !TermField::VARIANTS.contains(&key) {
                let text = format!(
                    "\"{key}:\" is not a filter key; expected one of: {}",
                    TermField::VARIANTS.join(", ")
                );
                return (is_key && !is_address).then_some(text);
            }
            let is_state = || {
                let rest = rest.to_lowercase();
                STATUS_VALUES
                    .split(", ")
                    .any(|state| state.starts_with(&rest))
            };
            (key == "status" && !is_state()).then(|| {
                format!("\"status:{rest}\" matches nothing; expected one of: {STATUS_VALUES}")
            })
        })
    }

    /// The filter as it was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it matches everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether a task on the screen matches now.
    pub fn matches(&self, task_row: &TaskRow, now: Stamp) -> bool {
        let view = &task_row.view;
        self.matches_terms(&view.task, &view.contact.at(now), || {
            Cow::Borrowed(&*task_row.arguments)
        })
    }

    /// Whether a task matches, without a row on a screen.
    pub fn matches_task(&self, task: &Task, contact: &Connectivity) -> bool {
        self.matches_terms(task, contact, || {
            Cow::Owned(short_arguments(&task.arguments))
        })
    }

    fn matches_terms<'a>(
        &self,
        task: &Task,
        contact: &Connectivity,
        arguments: impl Fn() -> Cow<'a, [(String, String)]>,
    ) -> bool {
        self.terms
            .iter()
            .all(|term| term.matches(task, contact, &arguments) != term.is_negated)
    }
}

impl Term {
    fn matches<'a>(
        &self,
        task: &Task,
        contact: &Connectivity,
        arguments: &impl Fn() -> Cow<'a, [(String, String)]>,
    ) -> bool {
        let has = |text: &str| text.to_lowercase().contains(&self.text);
        let begins = |text: &str| text.to_lowercase().starts_with(&self.text);
        match self.field {
            Some(TermField::Status) => {
                task.state_label().starts_with(&self.text)
                    || (self.text == "done" && task.status == Status::Completed)
                    || (self.text == "asking" && task.status == Status::InputRequired)
                    || task
                        .control
                        .is_some_and(|asked| asked.what.label().starts_with(&self.text))
                    || contact.label().starts_with(&self.text)
            }
            Some(TermField::Server) => begins(task.server.as_str()),
            Some(TermField::Tag) => task.tag.as_deref().is_some_and(begins),
            Some(TermField::Tool) => begins(&task.tool),
            Some(TermField::From) => task.caller.as_ref().is_some_and(|it| has(&it.host)),
            Some(TermField::Directory) => {
                let caller = task.caller.as_ref();
                caller.is_some_and(|it| has(&it.directory))
            }
            Some(TermField::Id) => task.id.as_str().starts_with(&self.text),
            None => {
                task.id.as_str().starts_with(&self.text)
                    || has(task.title())
                    || has(&task.tool)
                    || has(task.server.as_str())
                    || has(task.state_label())
                    || task.tag.as_deref().is_some_and(has)
                    || task.note.as_deref().is_some_and(has)
                    || task.caller.as_ref().is_some_and(|it| has(&it.label()))
                    || arguments()
                        .iter()
                        .any(|(key, value)| has(&format!("{key}={value}")))
            }
        }
    }
}
