//! Which server is meant: by name, by URL, or as the only one there is.

use secrecy::ExposeSecret as _;
use url::Url;

use super::{
    Context,
    config::{url_of, with_scheme},
    fail::Fail,
};
use crate::{
    domain::{LinkRecord, ServerConfig, ServerName, ServerRef, Template, server_url},
    store::Reader,
};

/// A server that needs no URL any more.
#[derive(Debug)]
struct Known {
    name: ServerName,
    url: String,
    /// What the configuration sends there, as far as its variables hold something here.
    headers: Vec<(String, String)>,
    /// A program that nobody approved.
    is_withheld: bool,
    /// A server that was never reached is no choice; it stands in the session only because of its task.
    is_choice: bool,
}

/// What `-s`, `-H`, `--bearer-env`, and `--insecure-http` say, against what the session and the configuration know.
#[derive(Debug)]
pub(super) struct Targets {
    named: Vec<ServerRef>,
    known: Vec<Known>,
    /// The server to call where there are several and none is named.
    usual: Option<String>,
    headers: Vec<(String, String)>,
    /// `--insecure-http`.
    may_be_read: bool,
}

/// The headers of a configured server whose variables hold something in this process, which may not be the one that
/// drives.
fn filled(server: &ServerConfig) -> Vec<(String, String)> {
    if server.withheld.is_some() {
        return Vec::new();
    }
    let holds = |variable: &str| {
        let secret = super::variable(variable)?;
        Some(secret.expose_secret().to_owned())
    };
    let filled = |(name, value): &(String, Template)| {
        let value = value.expand(holds).ok()?;
        Some((name.clone(), value))
    };
    server.headers.iter().filter_map(filled).collect()
}

impl Targets {
    pub(super) fn of(context: &Context<'_>, reader: &mut Reader) -> Result<Self, Fail> {
        let of_session = |link: LinkRecord| Known {
            is_withheld: false,
            is_choice: link.session_number > 0,
            name: link.name,
            url: link.url,
            headers: Vec::new(),
        };
        let mut known: Vec<Known> = reader.links()?.into_iter().map(of_session).collect();
        for server in &context.config()?.servers {
            let Some(url) = server.url.clone() else {
                continue;
            };
            known.retain(|known| known.name != server.name);
            known.push(Known {
                name: server.name.clone(),
                url,
                headers: filled(server),
                // One that nobody approved was only seen in somebody's file.
                is_withheld: server.program.is_some() && server.withheld.is_some(),
                is_choice: server.program.is_none() || server.withheld.is_none(),
            });
        }
        let mut headers: Vec<(String, String)> = context
            .global
            .header
            .iter()
            .map(|header| (header.name.clone(), header.value.clone()))
            .collect();
        if let Some(variable) = &context.global.bearer_env {
            let token = super::variable(variable).ok_or_else(|| {
                Fail::usage(format!(
                    "{variable} holds no token; set it, or leave --bearer-env out"
                ))
            })?;
            let value = format!("Bearer {}", token.expose_secret());
            headers.push(("Authorization".to_owned(), value));
        }
        let mut servers = Self {
            named: Vec::new(),
            known,
            usual: context.config()?.defaults.server.clone(),
            headers,
            may_be_read: context.global.insecure_http,
        };
        for text in &context.global.server {
            let named = servers.named(text)?;
            servers.named.push(named);
        }
        Ok(servers)
    }

    /// What goes to the engine; fails where a secret would go to another machine in the clear.
    fn make(&self, name: ServerName, url: Option<String>) -> Result<ServerRef, Fail> {
        let known = || self.known.iter().find(|known| known.name == name);
        let known = known();
        let headers = self.headers.clone();
        let is_given = |header: &str| {
            let mut given = headers.iter().map(|(name, _)| name);
            given.any(|given| given.eq_ignore_ascii_case(header))
        };
        let configured = known.map_or(&[][..], |known| &known.headers).iter();
        let filled = configured.filter(|(header, _)| !is_given(header));
        let filled: Vec<(String, String)> = filled.cloned().collect();
        let address = url.as_deref().or_else(|| known.map(|known| &*known.url));
        let is_in_clear = address
            .and_then(|address| Url::parse(address).ok())
            .is_some_and(|url| server_url::is_cleartext(&url));
        let has_secrets = !headers.is_empty() || !filled.is_empty();
        if is_in_clear && has_secrets && !self.may_be_read {
            return Err(Fail::usage(format!(
                "-H, --bearer-env and the headers of the configuration would go to {name} over plain http, where they can be read on the way; nothing was sent. \
                 Use an https:// URL, or say --insecure-http each time"
            )));
        }
        Ok(ServerRef {
            name,
            url,
            headers,
            config_headers: filled,
            protocol: None,
        })
    }

    pub(super) fn named(&self, text: &str) -> Result<ServerRef, Fail> {
        let is_known = self.known.iter().any(|link| link.name.as_str() == text);
        if is_known || !text.contains("://") && with_scheme(text).is_none() {
            return match self.known.iter().find(|link| link.name.as_str() == text) {
                Some(link) => self.make(link.name.clone(), None),
                None => Err(Fail::usage(format!(
                    "no server {text} in this session; {}",
                    self.what_there_is()
                ))),
            };
        }
        let url = url_of(text)
            .map_err(|why| Fail::usage(format!("could not use that URL as a server: {why}")))?;
        let same = |link: &&Known| {
            link.url == url.as_str()
                || link.url == text
                || Url::parse(&link.url).is_ok_and(|known| known == url)
        };
        if let Some(link) = self.known.iter().find(same) {
            // With its URL: whoever drives may find the session file damaged, and then knows nothing any more.
            return self.make(link.name.clone(), Some(link.url.clone()));
        }
        let host = url.host_str().unwrap_or("server");
        let base = url
            .port()
            .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let name = ServerName::free(&base, |name| {
            self.known.iter().any(|link| link.name.as_str() == name)
                || self.named.iter().any(|server| server.name.as_str() == name)
        });
        self.make(name, Some(url.to_string()))
    }

    /// Where a server is, as far as anything says so.
    pub(super) fn url_of(&self, server: &ServerRef) -> Option<String> {
        let known = || self.known.iter().find(|known| known.name == server.name);
        server.url.clone().or_else(|| Some(known()?.url.clone()))
    }

    /// The server to call: the one that is named, else the only one of the session.
    pub(super) fn one(&self) -> Result<ServerRef, Fail> {
        let choices: Vec<&Known> = self.known.iter().filter(|link| link.is_choice).collect();
        match (self.named.as_slice(), choices.as_slice()) {
            ([server], _) => Ok(server.clone()),
            ([], [link]) => self.make(link.name.clone(), None),
            ([], _) => match &self.usual {
                Some(usual) if self.known.iter().any(|it| it.name.as_str() == usual) => {
                    self.named(usual)
                }
                Some(usual) => Err(Fail::usage(format!(
                    "no server {usual} is known, which [defaults] of the configuration names; {}",
                    self.what_there_is()
                ))),
                None => Err(Fail::usage(format!(
                    "which server? {}",
                    self.what_there_is()
                ))),
            },
            _ => Err(Fail::usage("name one server with -s, not several")),
        }
    }

    /// Every server that there is, the ones that only a failed task left behind aside; each fails for itself.
    pub(super) fn choices(&self) -> impl Iterator<Item = (&ServerName, Result<ServerRef, Fail>)> {
        let choices = self.known.iter().filter(|link| link.is_choice);
        choices.map(|link| (&link.name, self.make(link.name.clone(), None)))
    }

    fn what_there_is(&self) -> String {
        if self.known.is_empty() {
            return "the session has none yet; give its URL with -s URL, take over those of other programs with `longhaul servers import`, or try `longhaul demo`"
                .to_owned();
        }
        let names: Vec<String> = self
            .known
            .iter()
            .map(|link| {
                if link.is_withheld {
                    format!("{} (a program, needs approval)", link.name)
                } else {
                    format!("{} ({})", link.name, server_url::redacted(&link.url))
                }
            })
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

    /// Where each server is that needs no URL any more.
    pub(super) fn urls(&self) -> Vec<(ServerName, String)> {
        let known = self.known.iter();
        known.map(|it| (it.name.clone(), it.url.clone())).collect()
    }

    /// The names of what `-s` names; empty if it names nothing.
    pub(super) fn names(&self) -> Vec<&ServerName> {
        self.named.iter().map(|server| &server.name).collect()
    }

    /// Whether the command line says more of servers than which.
    fn has_wishes(&self) -> bool {
        !self.headers.is_empty()
    }

    /// What the session has to know before it goes on with a task of `server`.
    pub(super) fn for_task(self, server: &ServerName) -> Result<Vec<ServerRef>, Fail> {
        if self.named.is_empty() && self.has_wishes() {
            return Ok(vec![self.make(server.clone(), None)?]);
        }
        Ok(self.named)
    }

    /// What the session has to know, whichever tasks it goes on with.
    pub(super) fn all(self) -> Result<Vec<ServerRef>, Fail> {
        match (self.named.is_empty(), self.known.as_slice()) {
            (true, [link]) if self.has_wishes() => Ok(vec![self.make(link.name.clone(), None)?]),
            _ => Ok(self.named),
        }
    }
}
