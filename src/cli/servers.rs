//! Which server is meant: by name, by URL, or as the only one there is.

use url::Url;

use super::{Context, fail::Fail};
use crate::{
    domain::{LinkRecord, ServerName, ServerRef},
    store::Reader,
};

/// What `-s`, `-H`, `--bearer-env` and `--protocol` say, against what the session knows.
#[derive(Debug)]
pub(super) struct Servers {
    named: Vec<ServerRef>,
    known: Vec<LinkRecord>,
    headers: Vec<(String, String)>,
    protocol: Option<String>,
}

impl Servers {
    pub(super) fn of(context: &Context<'_>, reader: &mut Reader) -> Result<Self, Fail> {
        let known = reader.links()?;
        let mut headers: Vec<(String, String)> = context
            .global
            .header
            .iter()
            .map(|header| (header.name.clone(), header.value.clone()))
            .collect();
        if let Some(variable) = &context.global.bearer_env {
            let token = std::env::var_os(variable).and_then(|token| token.into_string().ok());
            let token = token
                .map(|token| token.trim().to_owned())
                .filter(|token| !token.is_empty());
            let token = token.ok_or_else(|| {
                Fail::usage(format!(
                    "{variable} holds no token; set it, or leave --bearer-env out"
                ))
            })?;
            headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
        }
        let mut servers = Self {
            named: Vec::new(),
            known,
            headers,
            protocol: context
                .global
                .protocol
                .0
                .map(|version| version.word().to_owned()),
        };
        for text in &context.global.server {
            let named = servers.named(text)?;
            servers.named.push(named);
        }
        Ok(servers)
    }

    fn make(&self, name: ServerName, url: Option<String>) -> ServerRef {
        ServerRef {
            name,
            url,
            headers: self.headers.clone(),
            protocol: self.protocol.clone(),
        }
    }

    pub(super) fn named(&self, text: &str) -> Result<ServerRef, Fail> {
        if !text.contains("://") {
            return match self.known.iter().find(|link| link.name.as_str() == text) {
                Some(link) => Ok(self.make(link.name.clone(), None)),
                None => Err(Fail::usage(format!(
                    "no server {text} in this session; {}",
                    self.what_there_is()
                ))),
            };
        }
        let wrong = |why: String| Fail::usage(format!("could not use that URL as a server: {why}"));
        let url = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong(
                "it does not begin with http:// or https://".to_owned(),
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong(
                "it holds a password; pass that with -H or --bearer-env, which store nothing"
                    .to_owned(),
            ));
        }
        let same = |link: &&LinkRecord| {
            link.url == text || Url::parse(&link.url).is_ok_and(|known| known == url)
        };
        if let Some(link) = self.known.iter().find(same) {
            return Ok(self.make(link.name.clone(), None));
        }
        let host = url.host_str().unwrap_or("server");
        let base = url
            .port()
            .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let name = ServerName::free(&base, |name| {
            self.known.iter().any(|link| link.name.as_str() == name)
                || self.named.iter().any(|server| server.name.as_str() == name)
        });
        Ok(self.make(name, Some(url.to_string())))
    }

    /// The server to call: the one that is named, else the only one of the session.
    pub(super) fn one(&self) -> Result<ServerRef, Fail> {
        // A server that was never reached is no choice; it stands in the file only because of its task.
        let reached: Vec<&LinkRecord> = self
            .known
            .iter()
            .filter(|link| link.session_number > 0)
            .collect();
        match (self.named.as_slice(), reached.as_slice()) {
            ([server], _) => Ok(server.clone()),
            ([], [link]) => Ok(self.make(link.name.clone(), None)),
            ([], _) => Err(Fail::usage(format!(
                "which server? {}",
                self.what_there_is()
            ))),
            _ => Err(Fail::usage("name one server with -s, not several")),
        }
    }

    fn what_there_is(&self) -> String {
        if self.known.is_empty() {
            return "the session has none yet; give its URL with -s URL, or try `longhaul demo`"
                .to_owned();
        }
        let names: Vec<String> = self
            .known
            .iter()
            .map(|link| format!("{} ({})", link.name, link.url))
            .collect();
        format!(
            "choose with -s NAME, or a new one with -s URL; the session has {}",
            names.join(", ")
        )
    }

    /// Fails where nothing could come of waiting for a task of `server`.
    pub(super) fn must_know(&self, server: &ServerName) -> Result<(), Fail> {
        if self.known.iter().any(|link| link.name == *server) || self.names().contains(&server) {
            return Ok(());
        }
        Err(Fail::usage(format!(
            "the session does not know where {server} is any more; name it with -s URL"
        )))
    }

    /// The names of what `-s` names; empty if it names nothing.
    pub(super) fn names(&self) -> Vec<&ServerName> {
        self.named.iter().map(|server| &server.name).collect()
    }

    /// Whether the command line says more of servers than which.
    fn has_wishes(&self) -> bool {
        !self.headers.is_empty() || self.protocol.is_some()
    }

    /// What the session has to know before it goes on with a task of `server`.
    pub(super) fn for_task(self, server: &ServerName) -> Vec<ServerRef> {
        if self.named.is_empty() && self.has_wishes() {
            return vec![self.make(server.clone(), None)];
        }
        self.named
    }

    /// What the session has to know, whichever tasks it goes on with.
    pub(super) fn all(self) -> Vec<ServerRef> {
        match (self.named.is_empty(), self.known.as_slice()) {
            (true, [link]) if self.has_wishes() => vec![self.make(link.name.clone(), None)],
            _ => self.named,
        }
    }
}
