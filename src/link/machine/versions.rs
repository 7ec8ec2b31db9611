//! Which revisions are wanted, and whether the server speaks them yet.

use crate::{
    domain::{ConfigureError, Era, ModernSupport, ProtocolVersion, RequestError, TaskId},
    link::{ActiveTask, ConnectionState, Link, NegotiationStep, StreamState, negotiation::MODERN},
};

impl Link {
    /// Whether a call is out that the server may still make a task of.
    pub(super) fn awaits_task_id(&self) -> bool {
        // A task of a process ends with it too.
        !self.record.is_process()
            && self.tasks.iter().any(|(id, active)| {
                matches!(active.stream, StreamState::Calling(_))
                    && active.is_modern()
                    && self.may_become_task(id)
            })
    }

    /// Whether the server most likely makes a task of a call, as far as it did before.
    fn may_become_task(&self, id: &TaskId) -> bool {
        self.record.has_extension()
            && self.tasks.get(id).is_some_and(|active| {
                self.record.ran_as_task.get(&active.task.tool) != Some(&false)
            })
    }

    /// Whether the server may have made a task of a call whose answer never came. What it made of the last one proves
    /// nothing, because it decides each time; a step on the stream does, because tasks send none.
    pub(super) fn may_be_task(&self, id: &TaskId) -> bool {
        let has_moved = |attempt: &crate::domain::Attempt| attempt.last_value.is_some();
        let attempt = self.tasks.get(id).and_then(ActiveTask::attempt);
        self.record.has_extension() && !attempt.is_some_and(has_moved)
    }

    /// What has to be asked of the server before something that waits can go out: which step, and in which revision
    /// if that matters.
    pub(super) fn missing(&self) -> Option<(NegotiationStep, Option<ProtocolVersion>)> {
        // A program speaks one revision at a time, so requests that can use it are sent first.
        let goes_first = |asked| self.record.is_process() && self.missing_for(asked).is_none();
        if self.wanted_versions().any(goes_first) {
            return None;
        }
        self.wanted_versions()
            .find_map(|asked| Some((self.missing_for(asked)?, asked)))
    }

    /// The revisions that what waits to go out asks for.
    fn wanted_versions(&self) -> impl Iterator<Item = Option<ProtocolVersion>> {
        let queued = self.tasks.values();
        let queued = queued.filter(|it| it.waits_to_be_sent() && it.intent.is_none());
        let requests = self.queued_requests.iter();
        requests
            .map(|request| request.version)
            .chain(queued.map(|active| active.task.options.protocol))
    }

    pub(super) fn missing_for(&self, asked: Option<ProtocolVersion>) -> Option<NegotiationStep> {
        let is_old_legacy_sse = self.record.version == Some(ProtocolVersion::V20241105);
        let wanted = asked.or(self.config.choice.version);
        let is_session = |version| {
            self.record.is_stateful()
                && [self.record.version, self.record.asked_version].contains(&Some(version))
        };
        match wanted {
            _ if self.record.is_process() => asked
                .filter(|version| !self.program_speaks(*version))
                .map(|version| match version.era() {
                    Era::Modern => NegotiationStep::Discover,
                    Era::Stateful => NegotiationStep::Initialize,
                }),
            _ if self.legacy_sse.is_some() => None,
            Some(MODERN) => {
                let is_spoken = matches!(self.record.modern, ModernSupport::Offered { .. });
                (!is_spoken).then_some(NegotiationStep::Discover)
            }
            // What is configured was asked for with the handshake, whatever the server agreed to.
            Some(_)
                if asked.is_none()
                    && self.record.is_stateful()
                    && self.record.asked_version.is_none() =>
            {
                None
            }
            Some(version) => (!is_session(version)).then_some(NegotiationStep::Initialize),
            None if is_old_legacy_sse => None,
            None if !self.record.is_stateful() => {
                (!self.record.refuses_session).then_some(NegotiationStep::Initialize)
            }
            None => {
                (self.record.modern == ModernSupport::Unknown).then_some(NegotiationStep::Discover)
            }
        }
    }

    /// Whether the program speaks this revision, or was asked for it and chose another stateful one.
    fn program_speaks(&self, version: ProtocolVersion) -> bool {
        let asked = [self.record.asked_version, self.config.choice.version];
        self.record.version == Some(version)
            || self.record.is_stateful()
                && version.era() == Era::Stateful
                && asked.contains(&Some(version))
    }

    /// Whether the program is at work on a call.
    fn is_program_calling(&self) -> bool {
        let is_out = |active: &ActiveTask| {
            !active.is_settled() && active.attempt().is_some_and(|it| it.version.is_some())
        };
        self.record.is_process() && self.tasks.values().any(is_out)
    }

    /// Aims for the revision of the first waiting request; with a program, of the first that asks for one.
    pub(super) fn aim(&mut self) {
        if self.negotiation.second_best.is_some() {
            // The first of the two revisions has already been tried.
            return;
        }
        let is_beside = |version: &ProtocolVersion| {
            *version == MODERN
                && self.is_known_stateful()
                && self.config.choice.version.is_none()
                && !self.record.is_process()
        };
        let first = if self.record.is_process() {
            self.wanted_versions().flatten().next()
        } else {
            self.wanted_versions().next().flatten()
        };
        let first = first.filter(|version| !is_beside(version));
        self.negotiation.pinned = first.or(self.config.choice.version);
        match first.map(ProtocolVersion::era) {
            _ if self.negotiation.step == NegotiationStep::LegacySse => {}
            Some(Era::Modern) => self.negotiation.step = NegotiationStep::Discover,
            Some(Era::Stateful) => self.negotiation.step = NegotiationStep::Initialize,
            None => {}
        }
    }

    /// Negotiates the missing revision in addition to the one in use.
    pub(super) fn negotiate_for(&mut self, step: NegotiationStep, asked: Option<ProtocolVersion>) {
        if self.record.is_process() {
            if let Some(version) = asked.filter(|_| self.is_program_calling()) {
                let spoken = self.session_version().label();
                let why = format!("it is running calls in MCP {spoken}");
                return self.refuse_version(version, &why);
            }
            if self.has_requests_out() {
                return;
            }
            self.legacy_sse_ended("it was restarted with another MCP revision");
        }
        self.negotiation.pinned = asked.or(self.config.choice.version);
        self.negotiate_with(step);
    }

    /// Whether something was sent in the present session whose way back is that session.
    pub(super) fn has_work_in_session(&self) -> bool {
        self.tasks.values().any(|active| {
            !active.is_settled()
                && active.attempt().is_some_and(|it| it.version.is_some())
                && !active.is_modern()
        })
    }

    /// A session that was made for another command's `--protocol` is not kept for what asks for no revision.
    pub(super) fn unpin(&mut self, asked: Option<ProtocolVersion>) {
        if asked.is_some()
            || self.record.asked_version.is_none()
            || self.connection != ConnectionState::Ready
            || self.has_work_in_session()
            || self.record.is_process()
        {
            return;
        }
        self.record.asked_version = None;
        if self.record.is_stateful() {
            self.leave_session(match self.record.modern {
                ModernSupport::Unknown => NegotiationStep::Discover,
                _ => NegotiationStep::Initialize,
            });
        }
        self.record_changed();
    }

    /// Forgets the session. The next one begins with this step.
    pub(super) fn leave_session(&mut self, step: NegotiationStep) {
        (self.record.session, self.record.is_initialized) = (None, false);
        self.forget_tools();
        self.connection = ConnectionState::Disconnected;
        self.negotiation.step = step;
        self.record_changed();
    }

    /// Why a request cannot be made in this revision now, as a message.
    pub(super) fn conflict(&self, asked: Option<ProtocolVersion>) -> Option<RequestError> {
        let version =
            asked.filter(|version| version.era() == Era::Stateful || self.record.is_process())?;
        let is_in_use =
            self.is_program_calling() || self.is_known_stateful() && self.has_work_in_session();
        let is_refused = is_in_use && self.missing_for(asked).is_some();
        is_refused.then(|| {
            let error = ConfigureError::VersionInUse {
                name: self.record.name.clone(),
                used: self.session_version(),
                wanted: Some(version),
            };
            RequestError::Usage(error.to_string())
        })
    }
}
