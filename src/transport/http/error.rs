//! Why a request can't be sent. Nothing of it has reached the server.

use super::{client::ClientError, options::SignInError};
use crate::protocol::OriginError;

/// Why a request can't be sent; the message continues "not sent: ".
#[derive(Debug, thiserror::Error)]
pub(in crate::transport) enum SendError {
    #[error(transparent)]
    SignIn(#[from] SignInError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("its endpoint {0}")]
    Endpoint(#[from] OriginError),
    #[error("the sign-in token has characters that a header can't carry")]
    Token,
    #[error("the server's session id has characters that a header can't carry")]
    SessionId,
    #[error("the event id to resume from has characters that a header can't carry")]
    Cursor,
    #[error("{0} is not a valid header name")]
    RoutingName(String),
    #[error("the value of {0} is not a valid header value")]
    RoutingValue(String),
}
