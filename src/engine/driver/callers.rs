//! What the driver does for the callers behind `longhaul proxy`.

use super::Driver;
use crate::{
    domain::{
        Collected, NewCall, RequestError, SessionEvent, SessionRequest, SessionResponse, Stamp,
        TaskId,
    },
    engine::snapshots::ReaderId,
    link::Input,
};

impl Driver<'_> {
    /// The call of a proxy that this one repeats.
    fn repeated_call(&mut self, call: &NewCall, now: Stamp) -> Option<TaskId> {
        call.caller.as_ref()?;
        self.proxies.forget_gone(self.snapshots);
        // A call that was started a moment ago is not published yet.
        self.publish_changes(now);
        self.proxies.repeated(call, self.snapshots)
    }

    /// Each server keeps its notifications while a proxy listens.
    pub(super) fn update_listening(&mut self) {
        self.proxies.forget_gone(self.snapshots);
        for linked in &mut self.links {
            let name = &linked.link.record().name;
            let is_on = self.proxies.has_listener(name);
            linked.link.listen(is_on);
        }
    }

    /// Passes on what a server has notified of.
    pub(super) fn pass_notifications(&mut self, index: usize) {
        let Some(linked) = self.links.get_mut(index) else {
            return;
        };
        if !linked.link.is_listened_to() {
            return;
        }
        let notifications = linked.link.take_notifications();
        let server = &linked.link.record().name;
        for notification in notifications {
            for reader in self.proxies.readers(server, notification.task.as_ref()) {
                let event = SessionEvent::Notification {
                    server: server.clone(),
                    message: notification.message.clone(),
                };
                self.snapshots.tell(reader, event);
            }
        }
    }

    /// A proxy waits for the result of a call.
    pub(super) fn collect(
        &mut self,
        id: &TaskId,
        from: Option<ReaderId>,
        now: Stamp,
    ) -> Result<SessionResponse, RequestError> {
        self.publish_changes(now);
        if self.snapshots.task(id).is_none() {
            let words = format!("no task {id}; `longhaul ls --all` lists them");
            return Err(RequestError::Usage(words));
        }
        if let Some(reader) = from {
            self.proxies.collects(id, reader);
        }
        Ok(SessionResponse::Accepted)
    }

    /// The task that a request to start would repeat, for itself or for the caller behind a proxy, which waits for it.
    pub(super) fn started_or_repeated(
        &mut self,
        call: &NewCall,
        from: Option<ReaderId>,
        now: Stamp,
    ) -> Result<Option<TaskId>, RequestError> {
        let started = self.started_before(call)?;
        let repeated = match &started {
            Some(_) => None,
            None => self.repeated_call(call, now),
        };
        if let (Some(reader), Some(_)) = (from, &call.caller) {
            let id = started.as_ref().or(repeated.as_ref());
            self.proxies.collects(id.unwrap_or(&call.id), reader);
        }
        if let (Some(id), Some(caller)) = (&repeated, &call.caller) {
            let request_id = caller.request_id.clone();
            let how = Collected::Repeated { request_id };
            let note = SessionRequest::Collected {
                id: id.clone(),
                how,
            };
            // No request has the number 0.
            match self.links.iter().position(|linked| linked.link.holds(id)) {
                Some(index) => self.feed(index, Input::Ask { ask: 0, what: note }, now),
                None => self.ask_session(0, &note, now),
            }
        }
        Ok(started.or(repeated))
    }
}
