//! Sends requests to the session and remembers what they are for.

use crate::domain::{LinkState, ServerName, SessionRequest, SessionRequestId, TaskId};

use super::{Command, State, session::RequestPurpose};

/// Sends a request and remembers what it is for.
pub(super) fn request(state: &mut State, request: SessionRequest) {
    request_for(state, request, RequestPurpose::Other);
}

/// Sends a request whose response has a purpose.
pub(super) fn request_for(
    state: &mut State,
    request: SessionRequest,
    pending: RequestPurpose,
) -> SessionRequestId {
    let id = state.requests.last.wrapping_add(1);
    state.requests.last = id;
    state.requests.pending.insert(id, pending);
    state.command(Command::Request(id, request));
    id
}

/// Requests a server's tools unless a request is in progress.
pub(super) fn request_tools(state: &mut State, server: &ServerName) {
    let known = state.tools.get(server);
    if known.is_some_and(|tools| tools.request.is_some()) {
        return;
    }
    let purpose = RequestPurpose::Tools(server.clone());
    let id = request_for(state, SessionRequest::Tools(server.clone()), purpose);
    let tools = state.tools.entry(server.clone()).or_default();
    tools.request = Some(id);
    tools.error = None;
}

/// Whether a tools request would be sent now instead of waiting for a reconnect.
pub(super) fn is_reachable(state: &State, name: &ServerName) -> bool {
    state
        .server(name)
        .is_none_or(|server| !matches!(server.state, LinkState::Down { .. }))
}

/// Checks whether the configuration has changed, unless this window ignores it.
pub(super) fn check_config(state: &mut State, force: bool) {
    if !state.setup.readonly && !state.setup.is_demo && state.setup.host.is_none() {
        state.command(Command::CheckConfig { force });
    }
}

/// The next unused task id from the seed.
pub(super) fn new_id(state: &mut State) -> TaskId {
    loop {
        state.requests.ids_made = state.requests.ids_made.wrapping_add(1);
        // SplitMix64: one step of it spreads a counter over all bits.
        let mixed = state.requests.ids_made.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bits = state.setup.seed.wrapping_add(mixed);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let id = TaskId::from_bits(bits ^ (bits >> 31));
        if !state.tasks.contains_key(&id) {
            return id;
        }
    }
}
