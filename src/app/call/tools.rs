//! The steps that choose a server and a tool.

use crate::{
    app::{CallForm, State},
    domain::{ServerName, ServerView, Tool},
};

impl CallForm {
    /// The servers that match the input: the one of that name first, then those that begin with it.
    pub fn servers<'s>(&self, state: &'s State) -> Vec<&'s ServerView> {
        let typed = self.url.text().trim_start_matches('/').to_lowercase();
        let name = |server: &ServerView| server.name.as_str().to_lowercase();
        let fits = |server: &&ServerView| name(server).contains(&typed);
        let mut servers: Vec<&ServerView> = state.servers.iter().filter(fits).collect();
        if !typed.is_empty() {
            servers.sort_by_key(|it| (name(it) != typed, !name(it).starts_with(&typed)));
        }
        servers
    }

    /// Whether the tools of the chosen server, or of any one that was asked, have not arrived yet.
    pub fn is_loading(&self, state: &State) -> bool {
        if self.is_any_server {
            return state.tools.values().any(|tools| tools.request.is_some());
        }
        let tools = self.server.as_ref().and_then(|name| state.tools.get(name));
        tools.is_none_or(|tools| !tools.is_known && tools.error.is_none())
    }

    /// The tools that match the filter, with their servers: best matches first, then in the order of servers and tools.
    pub fn matching<'s>(&self, state: &'s State) -> Vec<(&'s ServerName, &'s Tool)> {
        let typed = self.filter.text().to_lowercase();
        // `/` opens the tool search, so it may be typed once more here.
        let typed = typed.trim_start().trim_start_matches('/');
        let words: Vec<&str> = typed.split_whitespace().collect();
        let is_asked = |name: &ServerName| self.is_any_server || self.server.as_ref() == Some(name);
        let rank = |(name, tool): &(&ServerName, &Tool)| {
            let server = if self.is_any_server {
                name.as_str()
            } else {
                ""
            };
            let mut ranks = words.iter().map(|word| match_rank(word, tool, server));
            ranks.try_fold(0, |worst, rank| rank.map(|rank| worst.max(rank)))
        };
        let mut found: Vec<(u8, (&ServerName, &Tool))> = state
            .tools
            .iter()
            .filter(|(name, _)| is_asked(name))
            .flat_map(|(name, tools)| tools.list.iter().map(move |tool| (name, tool)))
            .filter_map(|it| rank(&it).map(|rank| (rank, it)))
            .collect();
        found.sort_by_key(|(rank, _)| *rank);
        found.into_iter().map(|(_, it)| it).collect()
    }
}

/// How well a word matches a tool, 0 being best: beginning of the name, part of the name, or part of the server or
/// description. `None` if it doesn't match.
fn match_rank(word: &str, tool: &Tool, server: &str) -> Option<u8> {
    let name = tool.name.to_lowercase();
    let description = tool.description.as_deref().unwrap_or_default();
    let has_word = |text: &str| text.to_lowercase().contains(word);
    if name.starts_with(word) {
        Some(0)
    } else if name.contains(word) {
        Some(1)
    } else {
        (has_word(server) || has_word(description)).then_some(2)
    }
}
