//! Applies changes of the user and the configuration to the server.

use crate::{
    domain::{
        ConfigureError, LinkRecord, ModernSupport, Program, ProtocolVersion, ServerConfig,
        server_url,
    },
    link::{
        ConnectionState, Link,
        credentials::Sent,
        negotiation::{Choice, Negotiation},
        reachability::Reachability,
        subscription::TaskSubscription,
    },
};

impl Link {
    /// Speaks only this revision under this name from now on.
    ///
    /// # Errors
    /// If unsettled work would be lost with the change.
    pub fn pin_to(&mut self, version: ProtocolVersion) -> Result<(), ConfigureError> {
        self.choose(Choice {
            version: Some(version),
            is_configured: false,
        })?;
        if self.record.pinned_version != Some(version) {
            self.record.pinned_version = Some(version);
            self.record_changed();
        }
        Ok(())
    }

    /// A request was not sent, because credentials or an approval is missing.
    pub fn withhold(&mut self) {
        self.credentials.from_sign_in = false;
        // It was counted when it was meant to go out, and it never did.
        self.in_flight.sent = self.in_flight.sent.saturating_sub(1);
        self.published.is_server_stale = true;
    }

    /// The configuration file that no longer names the server; `None` once one names it again. The server's program is ended
    /// by the next input, once nothing runs there.
    pub fn gone_from(&mut self, file: Option<String>) {
        self.published.is_server_stale |= self.config.gone_from != file;
        self.config.gone_from = file;
        if self.config.gone_from.is_some() {
            self.config.waits = None;
        }
    }

    /// Whether credentials come from a sign-in, and not from the user's own headers.
    pub fn takes_sign_in(&mut self, does: bool) {
        self.credentials.from_sign_in = does;
    }

    /// The user's own headers that are sent there.
    pub fn sends(&mut self, sent: Sent) {
        self.credentials.headers = sent;
    }

    /// Whether the server requires credentials before anything else.
    pub(super) fn is_barred(&self) -> bool {
        matches!(self.connection, ConnectionState::AuthRequired(_))
    }

    /// Why the server requires other credentials, at least for a call.
    pub fn needed_credentials(&self) -> Option<&str> {
        if let ConnectionState::AuthRequired(why) = &self.connection {
            return Some(why);
        }
        let mut active = self.tasks.values().filter(|active| active.is_active());
        active.find_map(|active| active.denied.as_deref())
    }

    /// Applies what the configuration says about this server, except what [`Self::waiting_config`] then returns.
    pub fn configure(&mut self, config: &ServerConfig) {
        // Whatever stood in its way may be gone.
        self.published.is_server_stale = true;
        self.config.waits = self.try_configure(config).err();
    }

    /// Why a part of the configuration has not been applied yet.
    pub fn waiting_config(&self) -> Option<&ConfigureError> {
        self.config.waits.as_ref()
    }

    /// # Errors
    /// If a part of it has to wait because unsettled work would be lost with the change.
    fn try_configure(&mut self, config: &ServerConfig) -> Result<(), ConfigureError> {
        self.config.stop_when_idle = config.stop_when_idle;
        if self.record.convention != config.checkpoint {
            self.record.convention = config.checkpoint.clone();
            self.record_changed();
        }
        if let Some(url) = config.url.as_ref().filter(|url| **url != self.record.url) {
            self.move_to(url)?;
        }
        self.credentials.is_program_approved = config.program.is_some() && !config.is_withheld;
        if self.record.is_process() && self.legacy_sse.is_none() {
            match config.why_withheld() {
                Some(why) => {
                    self.connection = ConnectionState::AuthRequired(why);
                    self.show_all();
                }
                None => self.retry_auth(),
            }
        }
        if config.protocol.is_some() || self.config.choice.is_configured {
            let removed = self.record.pinned_version;
            self.choose(Choice {
                version: config.protocol.map_or(removed, |choice| choice.0),
                is_configured: config.protocol.is_some(),
            })?;
        }
        self.change_program(config.program.as_ref())
    }

    /// # Errors
    /// [`ConfigureError::ProgramInUse`] while something is unfinished there.
    fn change_program(&mut self, program: Option<&Program>) -> Result<(), ConfigureError> {
        self.config.program = program.cloned();
        if self.legacy_sse.is_some() && self.config.started_with.is_none() {
            // The keeper that this one replaced has started it.
            self.config.started_with = program.cloned();
        }
        if self.is_program_outdated() && self.has_unsettled() {
            return Err(ConfigureError::ProgramInUse(self.record.name.clone()));
        }
        Ok(())
    }

    /// Whether the program runs with another command than the configured one.
    pub(super) fn is_program_outdated(&self) -> bool {
        let started = self.config.started_with.as_ref();
        started.is_some() && started != self.config.program.as_ref()
    }

    fn choose(&mut self, choice: Choice) -> Result<(), ConfigureError> {
        let is_new = match choice.version {
            Some(version) => self.record.version.is_some_and(|known| known != version),
            // What was found out under a choice is not what survives.
            None => self.config.choice.version.is_some() && self.record.version.is_some(),
        };
        if is_new && self.has_sent() {
            return Err(ConfigureError::VersionInUse {
                name: self.record.name.clone(),
                used: self.session_version(),
                wanted: choice.version,
            });
        }
        if self.config.choice == choice {
            return Ok(());
        }
        self.config.choice = choice;
        if is_new {
            self.record.is_initialized = false;
            (self.record.session, self.record.version) = (None, None);
            (self.record.tools_at, self.record.gives_ids) = (None, None);
            self.record.gave_ids.clear();
            (self.record.modern, self.record.refuses_session) = (ModernSupport::Unknown, false);
            self.record.asked_version = None;
            self.session.listed_at = None;
            self.close_legacy_sse();
            self.connection = ConnectionState::Disconnected;
        }
        if !self.record.is_initialized {
            // It may have refused only the other revision.
            self.reachability = Reachability::new(self.now);
            self.session.handshake_tries = 0;
        }
        self.negotiation = Negotiation::new(self.config.choice, &self.record);
        self.record_changed();
        Ok(())
    }

    /// The server has moved: nothing that was found out at the old URL holds, and its session id must not reach the new
    /// one.
    ///
    /// # Errors
    /// [`ConfigureError::UrlInUse`] while something is unfinished at the old one.
    pub fn move_to(&mut self, url: &str) -> Result<(), ConfigureError> {
        let name = self.record.name.clone();
        if !self.may_move() {
            return Err(ConfigureError::UrlInUse {
                name,
                used: server_url::redacted(&self.record.url).into_owned(),
                wanted: server_url::redacted(url).into_owned(),
            });
        }
        self.config.waits = None;
        self.close_legacy_sse();
        self.close_standalone();
        self.end_subscription();
        self.close_where(|_| true);
        let moved = LinkRecord::new(name, url);
        let old = std::mem::replace(&mut self.record, moved);
        self.record.session_number = old.session_number;
        (self.record.pinned_version, self.record.convention) = (old.pinned_version, old.convention);
        self.negotiation = Negotiation::new(self.config.choice, &self.record);
        (self.session.listed_at, self.connection) = (None, ConnectionState::Disconnected);
        self.reachability = Reachability::new(self.now);
        self.subscription = TaskSubscription::default();
        self.retry_denied();
        self.gather();
        self.record_changed();
        Ok(())
    }
}
