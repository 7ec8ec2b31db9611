//! Client requests that wait until the server can be asked: for its tools, its tasks, its checkpoints.

use crate::domain::{ProtocolVersion, SessionRequest, SessionRequestId};

#[derive(Clone, Debug)]
pub(super) struct QueuedRequest {
    pub(super) id: SessionRequestId,
    pub(super) what: SessionRequest,
    /// The revision of `--protocol`, if the request has to be made in that one.
    pub(super) version: Option<ProtocolVersion>,
    /// Whether it was refused before, for a session that the server does not know.
    pub(super) is_repeated: bool,
}

impl QueuedRequest {
    pub(super) fn is_for_tools(&self) -> bool {
        matches!(self.what, SessionRequest::Tools(_))
    }

    /// Whether it is the request of a host with this key.
    pub(super) fn is_forward(&self, key: &str) -> bool {
        matches!(&self.what, SessionRequest::Forward { request, .. } if request.key == key)
    }
}
