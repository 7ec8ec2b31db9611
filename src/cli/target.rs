//! Resolves `-s` to servers: by name, by URL, or to the only known server.

use itertools::Itertools as _;
use secrecy::ExposeSecret as _;
use url::Url;

use crate::{
    cli::{CliError, CliResult, Context},
    domain::{LinkRecord, ServerConfig, ServerName, ServerRef, Template, check_header, server_url},
    store::Reader,
};

/// A server whose URL is in the session or the configuration.
#[derive(Debug)]
struct KnownServer {
    name: ServerName,
    url: String,
    /// Headers from the configuration whose variables are set in this process.
    headers: Vec<(String, String)>,
    /// A stdio server that is not approved.
    is_withheld: bool,
    /// Whether it can be selected by default. False for a server that was never reached, which is in the session only
    /// because a task names it.
    is_choice: bool,
}

/// A known server, with its URL.
pub(super) type TargetChoice = (ServerName, CliResult<ServerRef>, String);

/// The servers that `-s`, `-H`, `--bearer-env` and `--insecure-http` select from the session and the configuration.
#[derive(Debug)]
pub(super) struct Targets {
    named: Vec<ServerRef>,
    known: Vec<KnownServer>,
    /// `server` in `[defaults]`, used when there are several servers and no `-s`.
    default_server: Option<String>,
    /// From `-H` and `--bearer-env`.
    cli_headers: Vec<(String, String)>,
    allows_insecure_http: bool,
    /// Whether lines of the configuration are ignored.
    has_mistakes: bool,
}

/// The headers of a configured server whose variables are set in this process, which need not be the driver.
fn config_headers(server: &ServerConfig) -> Vec<(String, String)> {
    if server.is_withheld {
        return Vec::new();
    }
    let value_of = |variable: &str| {
        let secret = crate::config::env_secret(variable)?;
        Some(secret.expose_secret().to_owned())
    };
    let header = |(name, template): &(String, Template)| {
        let value = template.expand(value_of).ok()?;
        Some((name.clone(), value))
    };
    server.headers.iter().filter_map(header).collect()
}

impl Targets {
    pub(super) fn of(context: &Context<'_>, reader: &mut Reader) -> CliResult<Self> {
        let of_session = |link: LinkRecord| KnownServer {
            is_withheld: false,
            is_choice: link.session_number > 0 && server_url::process_in(&link.url).is_none(),
            name: link.name,
            url: link.url,
            headers: Vec::new(),
        };
        let mut known: Vec<KnownServer> = reader.links()?.into_iter().map(of_session).collect();
        for server in &context.config()?.servers {
            let Some(url) = server.url.clone() else {
                continue;
            };
            known.retain(|known| known.name != server.name);
            known.push(KnownServer {
                name: server.name.clone(),
                url,
                headers: config_headers(server),
                // An unapproved program may come from a file that somebody else wrote.
                is_withheld: server.program.is_some() && server.is_withheld,
                is_choice: server.program.is_none() || !server.is_withheld,
            });
        }
        let headers = context.global.header.iter();
        let headers = headers.map(|header| (header.name.clone(), header.value.clone()));
        let mut cli_headers: Vec<(String, String)> = headers.collect();
        if let Some(variable) = &context.global.bearer_env {
            let token = crate::config::env_secret(variable).ok_or_else(|| {
                CliError::usage(format!(
                    "{variable} is empty or not set; set it to a token, or leave out --bearer-env"
                ))
            })?;
            let value = format!("Bearer {}", token.expose_secret());
            cli_headers.push(("Authorization".to_owned(), value));
        }
        let mut targets = Self {
            named: Vec::new(),
            known,
            default_server: context.config()?.defaults.server.clone(),
            cli_headers,
            allows_insecure_http: context.global.insecure_http,
            has_mistakes: !context.config()?.notices.is_empty(),
        };
        for text in &context.global.server {
            let named = targets.named(text)?;
            targets.named.push(named);
        }
        Ok(targets)
    }

    /// The server as the engine takes it; fails if a header would go to another machine over plain http.
    fn server_ref(&self, name: ServerName, url: Option<String>) -> CliResult<ServerRef> {
        let known = self.known.iter().find(|known| known.name == name);
        let headers = self.cli_headers.clone();
        let is_on_cli = |header: &str| {
            let mut names = headers.iter().map(|(name, _)| name);
            names.any(|name| name.eq_ignore_ascii_case(header))
        };
        let config_headers = known.map_or(&[][..], |known| &known.headers).iter();
        let config_headers = config_headers.filter(|(header, _)| !is_on_cli(header));
        let config_headers: Vec<(String, String)> = config_headers.cloned().collect();
        // The value of a variable can contain a line break.
        for (header, value) in headers.iter().chain(&config_headers) {
            check_header(header, value)
                .map_err(|why| CliError::usage(format!("no request was sent to {name}: {why}")))?;
        }
        let address = url.as_deref().or_else(|| known.map(|known| &*known.url));
        let is_in_clear = address
            .and_then(|address| Url::parse(address).ok())
            .is_some_and(|url| server_url::is_cleartext(&url));
        let has_secrets = !headers.is_empty() || !config_headers.is_empty();
        if is_in_clear && has_secrets && !self.allows_insecure_http {
            return Err(CliError::usage(format!(
                "refusing to send headers to {name} over plain http, where others can read them; use an https:// URL, or pass \
                 --insecure-http"
            )));
        }
        Ok(ServerRef {
            name,
            url,
            headers,
            config_headers,
            protocol: None,
        })
    }

    /// Resolves one value of `-s`, a name or a URL.
    pub(super) fn named(&self, text: &str) -> CliResult<ServerRef> {
        if let Some(link) = self.known.iter().find(|link| link.name.as_str() == text) {
            return self.server_ref(link.name.clone(), None);
        }
        if !server_url::is_url(text) {
            // Where to look for a server whose configuration is ignored.
            let mistakes_hint = if self.has_mistakes {
                "the configuration has mistakes, which `longhaul doctor` shows; "
            } else {
                ""
            };
            return Err(CliError::usage(format!(
                "no server named {text:?} in the configuration or this session; {mistakes_hint}give its URL, or add it with `longhaul servers add`{}",
                self.known_hint()
            )));
        }
        let url = server_url::parse(text)
            .map_err(|why| CliError::usage(format!("invalid server URL: {why}")))?;
        let mut known = self.known.iter();
        if let Some(link) = known.find(|link| server_url::is_same(&link.url, url.as_str())) {
            // With the URL, because a driver that finds the session file damaged has lost it.
            return self.server_ref(link.name.clone(), Some(link.url.clone()));
        }
        let is_it = |server: &&ServerRef| {
            (server.url.as_ref()).is_some_and(|named| server_url::is_same(named, url.as_str()))
        };
        if let Some(server) = self.named.iter().find(is_it) {
            return Ok(server.clone());
        }
        let name = ServerName::free(&server_url::short_name(&url), |name| {
            self.known.iter().any(|link| link.name.as_str() == name)
                || self.named.iter().any(|server| server.name.as_str() == name)
        });
        self.server_ref(name, Some(url.to_string()))
    }

    /// The URL of a server, if it is known.
    pub(super) fn url_of(&self, server: &ServerRef) -> Option<String> {
        let known = || self.known.iter().find(|known| known.name == server.name);
        server.url.clone().or_else(|| Some(known()?.url.clone()))
    }

    /// The server to call: from `-s`, else the only known one, else the default of the configuration.
    pub(super) fn one(&self) -> CliResult<ServerRef> {
        let choices: Vec<&KnownServer> = self.known.iter().filter(|link| link.is_choice).collect();
        match (self.named.as_slice(), choices.as_slice()) {
            ([server], _) => Ok(server.clone()),
            ([], [link]) => self.server_ref(link.name.clone(), None),
            ([], _) => match &self.default_server {
                Some(name) if self.known.iter().any(|it| it.name.as_str() == name) => {
                    self.named(name)
                }
                Some(name) => Err(CliError::usage(format!(
                    "[defaults] in the configuration names server {name}, which longhaul does not know; correct it, or choose a server with -s{}",
                    self.known_hint()
                ))),
                None => Err(CliError::usage(self.choices_hint())),
            },
            _ => Err(CliError::usage(
                "this command takes one server; use -s only once",
            )),
        }
    }

    /// Every known server except those that were never reached. Each can fail on its own.
    pub(super) fn choices(&self) -> impl Iterator<Item = TargetChoice> {
        let choices = self.known.iter().filter(|link| link.is_choice);
        choices.map(|link| {
            let server = self.server_ref(link.name.clone(), None);
            (link.name.clone(), server, link.url.clone())
        })
    }

    /// What to pass to `-s`.
    fn choices_hint(&self) -> String {
        if self.known.is_empty() {
            return "no servers yet; pass a URL with -s URL, import servers with `longhaul servers import`, or try `longhaul demo`"
                .to_owned();
        }
        format!(
            "which server? choose one with -s NAME, pass a new one with -s URL, or set `server` in [defaults] of the configuration{}",
            self.known_hint()
        )
    }

    /// The known servers, to end a message with; empty if there are none.
    fn known_hint(&self) -> String {
        if self.known.is_empty() {
            return String::new();
        }
        let mut names = self.known.iter().map(|link| {
            if link.is_withheld {
                format!("{} (stdio, needs approval)", link.name)
            } else if server_url::is_process(&link.url) {
                format!("{} (stdio)", link.name)
            } else {
                format!("{} ({})", link.name, server_url::redacted(&link.url))
            }
        });
        format!("; known servers: {}", names.join(", "))
    }

    /// Fails if the URL of `server` is unknown, so that waiting for its tasks would be pointless.
    pub(super) fn must_know(&self, server: &ServerName) -> CliResult<()> {
        if self.known.iter().any(|link| link.name == *server) || self.names().contains(&server) {
            return Ok(());
        }
        Err(CliError::usage(format!(
            "the session no longer has a URL for {server}; pass it with -s URL"
        )))
    }

    /// Whether there are no known servers.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The names of the servers from `-s`.
    pub(super) fn names(&self) -> Vec<&ServerName> {
        self.named.iter().map(|server| &server.name).collect()
    }

    /// The servers to announce to the session before it resumes a task of `server`.
    pub(super) fn for_task(self, server: &ServerName) -> CliResult<Vec<ServerRef>> {
        if self.named.is_empty() && !self.cli_headers.is_empty() {
            return Ok(vec![self.server_ref(server.clone(), None)?]);
        }
        Ok(self.named)
    }

    /// The servers to announce to the session before it resumes any of its tasks.
    pub(super) fn all(self) -> CliResult<Vec<ServerRef>> {
        match (self.named.is_empty(), self.known.as_slice()) {
            (true, [link]) if !self.cli_headers.is_empty() => {
                Ok(vec![self.server_ref(link.name.clone(), None)?])
            }
            _ => Ok(self.named),
        }
    }
}
