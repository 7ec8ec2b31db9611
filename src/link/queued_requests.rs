//! Client requests that wait until the server can be asked: for its tools, its tasks, its checkpoints.

use crate::domain::{HostRequest, ProtocolVersion, SessionRequestId};

/// What a queued request asks the server for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Tools,
    /// The server tasks that it lists.
    ServerTasks,
    /// The one server task of this id.
    ServerTask(String),
    /// How it introduces itself.
    Introduction,
    /// Its answer to a request of a host.
    Forward {
        request: HostRequest,
        /// Whether it was refused before, for a session that the server does not know.
        is_repeated: bool,
    },
    /// Nothing: it gets this notification of a host.
    Notify(String),
    /// The checkpoints of this client.
    Checkpoints {
        client_id: String,
    },
}

#[derive(Clone, Debug)]
pub(super) struct QueuedRequest {
    pub(super) id: SessionRequestId,
    pub(super) wanted: Wanted,
    /// The revision of `--protocol`, if the request has to be made in that one.
    pub(super) version: Option<ProtocolVersion>,
}

#[derive(Debug, Default)]
pub(super) struct QueuedRequests(Vec<QueuedRequest>);

impl QueuedRequests {
    pub(super) fn push(
        &mut self,
        id: SessionRequestId,
        wanted: Wanted,
        version: Option<ProtocolVersion>,
    ) {
        self.0.push(QueuedRequest {
            id,
            wanted,
            version,
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The revisions that they ask for.
    pub(super) fn versions(&self) -> impl Iterator<Item = Option<ProtocolVersion>> {
        self.0.iter().map(|request| request.version)
    }

    /// The oldest request for the tools.
    pub(super) fn first_for_tools(&self) -> Option<&QueuedRequest> {
        self.0.iter().find(|it| it.wanted == Wanted::Tools)
    }

    /// Takes out the request of a host with this key.
    pub(super) fn take_forward(&mut self, key: &str) -> Option<QueuedRequest> {
        let is_it = |request: &QueuedRequest| matches!(&request.wanted, Wanted::Forward { request, .. } if request.key == key);
        let position = self.0.iter().position(is_it)?;
        Some(self.0.remove(position))
    }

    /// Takes out the requests that match.
    pub(super) fn take(&mut self, is_it: impl Fn(&QueuedRequest) -> bool) -> Vec<QueuedRequest> {
        self.0.extract_if(.., |request| is_it(request)).collect()
    }
}
