//! The links: one state machine for each server, and how its outputs are carried out.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use itertools::Itertools as _;
use secrecy::SecretString;

use crate::{
    auth::TokenManager,
    domain::{
        EventId, LinkRecord, MissingVariable, NoticeLevel, ProtocolVersion, RequestError,
        ServerName, ServerObstacle, ServerRef, SessionEvent, SessionOutcome, SessionRequest,
        SessionResponse, SharedByteCount, Stamp, Task, Wall, check_header, server_url,
    },
    engine::{
        driver::{
            configuring::{Configured, WithheldError},
            requests::at_rest,
            saving::notice,
            state::{Driver, Linked, Saver},
        },
        inbox::{Reading, Source},
        snapshots::ReaderId,
        test_hooks::{PanicIn, die_if_told, panic_if_told},
        tracer::TracerError,
        upgrade::LinkState,
    },
    link::{Choice, ExchangeId, Input, Link, Output, SaveToken, Unfollowed},
    protocol::{ExchangeEvent, HttpError, Method, Request},
    store::RestoredTask,
    transport::{Http, HttpOptions, ProgramPipes, Secrets, SignIn, Stdio},
};

impl Linked {
    /// Whether a sign-in is waiting for a browser.
    pub(super) fn is_signing_in(&self) -> bool {
        let sign_in = self.signing_in.as_ref();
        sign_in.is_some_and(|it| !it.job.is_finished())
    }

    /// When the token must be refreshed, unless that is happening.
    pub(super) fn token_due(&self) -> Option<Wall> {
        let due = self.tokens.as_ref()?.due()?;
        let is_busy = |job: &tokio::task::AbortHandle| !job.is_finished();
        let is_open = self.exchanges.values().any(|reading| !reading.is_over());
        (is_open && !self.refreshing.as_ref().is_some_and(is_busy)).then_some(due)
    }

    /// Keeps the reader of an exchange. Ended ones are removed once they are half of all.
    pub(super) fn reads(&mut self, exchange: ExchangeId, reading: Reading) {
        if self.exchanges.len() > 2 * self.left + 16 {
            self.exchanges.retain(|_, reading| !reading.is_over());
            self.left = self.exchanges.len();
        }
        self.exchanges.insert(exchange, reading);
    }

    /// The headers of the request; those given on the command line win.
    pub(super) fn given(&self) -> Vec<(String, String)> {
        let is_by_hand = |filled: &str| {
            let mut names = self.headers.iter().map(|(name, _)| name);
            names.any(|name| name.eq_ignore_ascii_case(filled))
        };
        let filled = self.config_headers.iter();
        let filled = filled.filter(|(name, _)| !is_by_hand(name));
        self.headers.iter().chain(filled).cloned().collect()
    }

    /// What the user has to do before anything can be sent or started.
    pub(super) fn obstacle(&self, configured: &Configured<'_>) -> Option<ServerObstacle> {
        let record = self.link.record();
        let mut server = configured.server?.clone();
        if record.is_process() {
            // A running program needs nothing, even if the configuration has changed.
            server.program.as_ref().filter(|_| self.stdio.is_none())?;
        } else {
            let given = self.given();
            let wanted = configured.wanted(record, &given);
            server.headers = wanted.into_iter().cloned().collect();
            if server.headers.is_empty() {
                return None;
            }
        }
        server.obstacle(|variable| configured.surroundings.variables.get(variable).is_some())
    }

    /// The server's process, taken from the configuration before each start; `Err` is what the state machine
    /// gets instead of a response.
    pub(super) fn process(
        &mut self,
        configured: &Configured<'_>,
        unread: &SharedByteCount,
        is_start: bool,
    ) -> Result<Stdio, ExchangeEvent> {
        let can_continue = |stdio: &&Stdio| !is_start || stdio.is_inherited();
        if let Some(stdio) = self.stdio.as_ref().filter(can_continue) {
            return Ok(stdio.clone());
        }
        let name = &self.link.record().name;
        let program = configured
            .server
            .and_then(|server| Some((server.program.as_ref()?, server.why_withheld())));
        let program = match program {
            Some((program, None)) => Ok(program),
            Some((_, Some(why))) => Err(WithheldError::NotApproved(why)),
            None => Err(WithheldError::NoProgram(name.clone())),
        };
        let options = program.and_then(|program| {
            let process = configured.process(program, unread, &self.secrets);
            process.map_err(|MissingVariable(variable)| WithheldError::ProgramVariable {
                name: name.clone(),
                variable,
            })
        });
        let mut options = options.map_err(|error| self.withhold(&error))?;
        options.traffic = Some(self.tap.clone());
        // The previous process has ended, or the start of the new one ends it.
        let older = self.stdio.take();
        Ok(self.stdio.insert(Stdio::replacing(older, options)).clone())
    }

    /// Drops the credentials of a command, which the server refuses, now that the user has signed in.
    pub(super) fn use_sign_in(&mut self) {
        let count = self.headers.len();
        self.headers.retain(|(name, _)| !is_authorization(name));
        if self.headers.len() < count {
            self.http = None;
        }
    }

    /// Drops what belongs to the server at the old address, if that has changed.
    pub(super) fn moved_from(&mut self, old_url: &str) {
        let url = &self.link.record().url;
        if url == old_url {
            return;
        }
        self.http = None;
        if !server_url::is_same_origin(url, old_url) {
            self.headers.clear();
            self.config_headers.clear();
            self.secrets = Secrets::default();
            self.insecure_http = false;
        }
    }

    /// Tells the machine why nothing is sent, as if the server had answered as it does without credentials.
    fn withhold(&mut self, error: &WithheldError) -> ExchangeEvent {
        self.link.withhold();
        ExchangeEvent::Refused(Box::new(HttpError {
            status: 401,
            withheld: Some(error.to_string()),
            ..HttpError::default()
        }))
    }

    /// The client for its server, created if necessary; `Err` is what the state machine gets instead.
    pub(super) fn connection(
        &mut self,
        configured: &Configured<'_>,
        unread: &SharedByteCount,
        sign_in: impl FnOnce(&url::Url, &str) -> TokenManager,
    ) -> Result<Http, ExchangeEvent> {
        if let Some(http) = &self.http {
            return Ok(http.clone());
        }
        let record = self.link.record();
        let given = self.given();
        let more = match configured.headers(record, &given, &self.secrets) {
            Ok(more) => more,
            Err(error) => return Err(self.withhold(&error)),
        };
        let given = given.into_iter();
        let given = given.map(|(name, value)| (name, SecretString::from(value)));
        let mut options = HttpOptions::new(record.url.clone());
        options.buffered = unread.clone();
        options.headers = given.chain(more).collect();
        options.secrets = self.secrets.clone();
        options.traffic = Some(self.tap.clone());
        let mut names = options.headers.iter().map(|(name, _)| name);
        let has_own = names.any(|name| is_authorization(name));
        // A later sign-in replaces what a command passed.
        let takes_sign_in = !has_own || self.headers.iter().any(|(name, _)| is_authorization(name));
        let url = url::Url::parse(&record.url).ok();
        let is_private =
            |url: &url::Url| !server_url::is_cleartext(url) || configured.insecure_http;
        self.tokens = url
            .filter(|url| takes_sign_in && is_private(url))
            .map(|url| Arc::new(sign_in(&url, record.name.as_str())));
        let sent = configured.sent(record, &self.headers);
        let sign_in = self.tokens.clone();
        if has_own && let Some(tokens) = &sign_in {
            tokens.skip_sign_in();
        }
        let sign_in = sign_in.filter(|_| !has_own);
        self.link.takes_sign_in(sign_in.is_some());
        options.sign_in = sign_in.map(|tokens| tokens as Arc<dyn SignIn>);
        self.link.sends(sent);
        let http =
            Http::new(options).map_err(|error| ExchangeEvent::not_sent(error.to_string()))?;
        Ok(self.http.insert(http).clone())
    }
}

fn is_authorization(name: &str) -> bool {
    name.trim().eq_ignore_ascii_case("authorization")
}

impl Driver<'_> {
    /// Adds the servers of the session file, and continues with the processes in `inherited`. The credentials of
    /// `servers` are set before anything is sent; those of a name without a URL are for the configured address.
    pub(super) fn restore_links(
        &mut self,
        records: Vec<LinkRecord>,
        servers: &[ServerRef],
        (inherited, programs): (Vec<LinkState>, Vec<ProgramPipes>),
        now: Stamp,
    ) {
        let initialized = records.iter().filter(|record| record.is_initialized);
        let initialized: BTreeSet<ServerName> =
            initialized.map(|record| record.name.clone()).collect();
        for record in records {
            let configured = self.configs.of_name(&record.name);
            let configured = configured.and_then(|it| it.url.as_deref());
            let is_there =
                configured.is_none_or(|url| server_url::is_same_origin(url, &record.url));
            let is_it = |server: &&ServerRef| {
                let is_named = server
                    .url
                    .as_ref()
                    .map_or(is_there, |url| *url == record.url);
                server.name == record.name && is_named
            };
            let server = servers.iter().find(is_it);
            let headers = server.map_or(Vec::new(), |server| server.headers.clone());
            self.add_link(record, headers, now);
            if let (Some(server), Some(linked)) = (server, self.links.last_mut()) {
                linked.config_headers.clone_from(&server.config_headers);
            }
        }
        self.inherit_links(inherited, programs, &initialized);
    }

    /// Continues the tasks of the session file.
    pub(super) fn restore_tasks(
        &mut self,
        tasks: Vec<RestoredTask>,
        driven_until: Option<Wall>,
        now: Stamp,
    ) {
        self.proxies.restore(tasks.iter().map(|it| &it.task));
        let mut unsettled: BTreeMap<usize, Vec<(Task, Vec<EventId>)>> = BTreeMap::new();
        for RestoredTask { task, recent_ids } in tasks {
            if let Some(hooks) = &mut self.hooks {
                hooks.restore(&task);
            }
            let index = self.index_of(&task.server);
            match index {
                Some(index) if task.is_open() => {
                    unsettled.entry(index).or_default().push((task, recent_ids));
                }
                _ => self
                    .snapshots
                    .publish(SessionEvent::Task(Arc::new(at_rest(task)))),
            }
        }
        for (index, tasks) in unsettled {
            let restored = Input::Restored {
                tasks,
                unfollowed: Unfollowed::SinceDriver(driven_until),
            };
            self.feed(index, restored, now);
        }
    }

    pub(super) fn index_of(&self, name: &ServerName) -> Option<usize> {
        self.links
            .iter()
            .position(|linked| &linked.link.record().name == name)
    }

    pub(super) fn add_link(
        &mut self,
        record: LinkRecord,
        headers: Vec<(String, String)>,
        now: Stamp,
    ) {
        let choice = Choice {
            version: record.pinned_version,
            is_configured: false,
        };
        self.configs.add_directory(&record);
        let tap = self.tracer.tap(&record.name);
        let config = self.configs.of_name(&record.name);
        let is_configured = config.is_some_and(|config| config.trace);
        let link =
            Link::new(record, choice, self.rng.u64(..), now).sharing(self.saves.unsaved.clone());
        self.links.push(Linked {
            link,
            http: None,
            stdio: None,
            tokens: None,
            refreshing: None,
            signing_in: None,
            headers,
            config_headers: Vec::new(),
            named_by: None,
            insecure_http: self.sign_in.insecure_http,
            secrets: Secrets::default(),
            tap,
            held: VecDeque::new(),
            durable: 0,
            exchanges: BTreeMap::new(),
            left: 0,
            is_touched: true,
        });
        if (self.traces || is_configured)
            && let Err(error) = self.record(self.links.len() - 1, true)
        {
            self.notice(NoticeLevel::Warning, error.to_string(), now);
        }
    }

    /// Starts or stops tracing a server.
    pub(super) fn record(&mut self, index: usize, is_on: bool) -> Result<(), TracerError> {
        let Some(linked) = self.links.get(index) else {
            return Ok(());
        };
        if is_on {
            let calls = linked.link.calls();
            let calls = calls.map(|(request, task)| (request.clone(), task.clone()));
            self.tracer.record(&linked.tap, calls)
        } else {
            linked.tap.switch().set(false);
            Ok(())
        }
    }

    /// The response to a request to start or stop tracing.
    pub(super) fn trace(
        &mut self,
        server: Option<&ServerName>,
        is_on: Option<bool>,
    ) -> SessionOutcome {
        let (of, name) = match server {
            Some(name) => {
                let index = self.index_of(name);
                let index = index.ok_or_else(|| self.unknown_server(name))?;
                (index..index + 1, name.as_str())
            }
            None => (0..self.links.len(), "every server"),
        };
        let is_recorded = |linked: &Linked| linked.tap.switch().is_on();
        let mut taps = self.links.iter().skip(of.start).take(of.len());
        let is_on = is_on.unwrap_or_else(|| !taps.any(is_recorded));
        if server.is_none() {
            self.traces = is_on;
        }
        for index in of {
            self.record(index, is_on)
                .map_err(|error| RequestError::CannotSave(error.to_string()))?;
        }
        Ok(SessionResponse::Done(if is_on {
            format!("traffic with {name} is now recorded; `longhaul trace` shows it")
        } else {
            format!("traffic with {name} is no longer recorded")
        }))
    }

    pub(super) fn drain_inbox(&mut self, now: Stamp) {
        let mut arrivals = std::mem::take(&mut self.received.arrivals);
        self.received.inbox.take(&mut arrivals);
        self.publishing.arrivals += arrivals.len();
        let streams = arrivals.iter().map(|it| (it.link, it.exchange)).unique();
        self.pace.took(arrivals.len(), streams.count());
        for next in arrivals.drain(..) {
            let (exchange, arrival) = (next.exchange, next.event);
            self.feed(next.link, Input::Arrived { exchange, arrival }, now);
        }
        self.received.arrivals = arrivals;
    }

    /// Feeds the same input to each link.
    pub(super) fn feed_all(&mut self, input: impl Fn() -> Input, now: Stamp) {
        for index in 0..self.links.len() {
            self.feed(index, input(), now);
        }
    }

    /// Feeds a request to a link whose answer nobody waits for.
    pub(super) fn tell(&mut self, index: usize, what: SessionRequest, now: Stamp) {
        // No request has the number 0.
        self.feed(index, Input::Ask { ask: 0, what }, now);
    }

    /// Feeds an input to a link and carries out the outputs.
    pub(super) fn feed(&mut self, index: usize, input: Input, now: Stamp) {
        let Some(linked) = self.links.get_mut(index) else {
            return;
        };
        linked.is_touched = true;
        linked.link.handle(now, input);
        for output in linked.link.take_outputs() {
            self.carry_out(index, output, now);
        }
        self.pass_to_hosts(index);
    }

    pub(super) fn carry_out(&mut self, index: usize, output: Output, now: Stamp) {
        let Some(linked) = self.links.get_mut(index) else {
            return;
        };
        let waits_for = match &output {
            Output::Send { after, .. } | Output::Answer { after, .. } => *after,
            Output::Save { .. } | Output::Close { .. } => None,
        };
        if let Some(token) = waits_for.filter(|token| *token > linked.durable) {
            linked.held.push_back((token, output));
            return;
        }
        panic_if_told(PanicIn::Network);
        die_if_told();
        match output {
            Output::Save {
                token,
                rows,
                is_vital,
            } => self.write(Saver::Link(index, token), rows, is_vital, now),
            // A driver that is exiting leaves open requests to the next one: their clients send them again.
            Output::Answer {
                outcome: Err(_), ..
            } if self.is_leaving => {}
            Output::Answer { ask, outcome, .. } => {
                let outcome = outcome.map(|response| self.with_timeout(ask, response));
                if self.open.needs_views(ask) {
                    self.publish_changes(now);
                }
                self.respond(ask, outcome);
            }
            Output::Close { exchange } => {
                linked.exchanges.remove(&exchange);
                let is_other = |held: &(SaveToken, Output)| !matches!(&held.1, Output::Send { exchange: held, .. } if *held == exchange);
                linked.held.retain(is_other);
            }
            Output::Send {
                exchange, request, ..
            } => self.send(index, exchange, request, now),
        }
    }

    /// Sends a request on a link's connection, which is opened if need be.
    fn send(&mut self, index: usize, exchange: ExchangeId, request: Request, now: Stamp) {
        let Some(linked) = self.links.get_mut(index) else {
            return;
        };
        let name = &linked.link.record().name;
        let configured = Configured {
            server: self.configs.to_connect(name),
            surroundings: self.configs.surroundings(name),
            insecure_http: linked.insecure_http,
            guard: self.guard,
        };
        let unread = &self.received.unread;
        let task = linked.link.task_of(exchange).cloned();
        let inbox = &self.received.inbox;
        let reading = if linked.link.record().is_process() {
            let is_start = matches!(request.method, Method::Get { .. });
            let process = linked.process(&configured, unread, is_start);
            process.map(|stdio| {
                let arrivals = stdio.exchange_for(task, request);
                inbox.read(index, exchange, Source::Process, arrivals)
            })
        } else {
            let clock = self.clock;
            let http = linked.connection(&configured, unread, |url, name| {
                let fetcher = Arc::clone(&self.sign_in.fetcher);
                let now = Arc::new(move || clock.now().wall);
                let notice = notice(self.snapshots, clock);
                TokenManager::new(url, name, self.sign_in.logins, fetcher, now, notice)
            });
            http.map(|http| {
                let arrivals = http.exchange_for(task, request);
                inbox.read(index, exchange, Source::Network, arrivals)
            })
        };
        match reading {
            Ok(reading) => linked.reads(exchange, reading),
            Err(arrival) => self.feed(index, Input::Arrived { exchange, arrival }, now),
        }
    }

    /// Adds a server; refuses a name that already stands for another URL, and a revision other than the one
    /// in use.
    pub(super) fn know(
        &mut self,
        server: ServerRef,
        from: Option<ReaderId>,
        now: Stamp,
    ) -> Result<usize, RequestError> {
        // They must not replace headers that can be sent.
        for (name, value) in server.headers.iter().chain(&server.config_headers) {
            check_header(name, value).map_err(|why| RequestError::Usage(why.to_string()))?;
        }
        let pinned = server.protocol.as_deref().and_then(ProtocolVersion::parse);
        let known = self.index_of(&server.name);
        match (known, server.url) {
            (Some(index), url) => {
                let Some(linked) = self.links.get_mut(index) else {
                    return Err(RequestError::Usage("no such server".to_owned()));
                };
                let known_url = linked.link.record().url.clone();
                if let Some(url) = url.filter(|url| *url != known_url) {
                    // A URL that was never reached may be a typo, unless somebody waits for it.
                    let is_of_another =
                        |reader: ReaderId| Some(reader) != from && self.snapshots.has(reader);
                    let is_unused = linked.link.record().session_number == 0
                        && self.configs.of_name(&server.name).is_none()
                        && !linked.named_by.is_some_and(is_of_another)
                        && Http::new(HttpOptions::new(url.clone())).is_ok();
                    if !is_unused || linked.link.move_to(&url).is_err() {
                        return Err(RequestError::Usage(format!(
                            "{0} is {2} in this session, not {1}; add the new one with `longhaul servers add NAME {1}`, or use another --session",
                            server.name,
                            server_url::redacted(&url),
                            server_url::redacted(&known_url)
                        )));
                    }
                    linked.moved_from(&known_url);
                    (linked.headers, linked.config_headers) = (Vec::new(), Vec::new());
                }
                linked.named_by = from;
                if let Some(version) = pinned
                    && let Err(error) = linked.link.pin_to(version)
                {
                    return Err(RequestError::Usage(error.to_string()));
                }
                let given = [
                    (server.headers, &mut linked.headers),
                    (server.config_headers, &mut linked.config_headers),
                ];
                for (headers, known) in given {
                    if !headers.is_empty() && headers != *known {
                        (*known, linked.http) = (headers, None);
                        linked.link.retry_denied();
                    }
                }
                Ok(index)
            }
            (None, Some(url)) => {
                if !server_url::is_process(&url) {
                    Http::new(HttpOptions::new(url.clone()))
                        .map_err(|error| RequestError::Usage(error.to_string()))?;
                }
                let mut record = LinkRecord::new(server.name.clone(), url);
                record.pinned_version = pinned;
                self.add_link(record, server.headers, now);
                if let Some(linked) = self.links.last_mut() {
                    linked.config_headers = server.config_headers;
                    linked.named_by = from;
                }
                self.apply_config(&server.name, now);
                Ok(self.links.len() - 1)
            }
            (None, None) => Err(self.unknown_server(&server.name)),
        }
    }
}
