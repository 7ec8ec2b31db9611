//! Unguessable tokens that tie an elicitation to its answer, stored in the table `ticket`.
//!
//! A token serves as the `requestState` of a modern call that asks before it starts, as the `elicitationId` of a URL
//! elicitation, and in that page's URL. Invariant: a token is valid only for the tool and arguments it was issued for.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::Html,
};
use rusqlite::{OptionalExtension, params};
use tokio::sync::watch;

use super::database::{Database, now_ms, random_id};
use crate::demo::error::DemoError;

/// A token's lifetime in milliseconds: one hour.
const TTL_MS: i64 = 3600 * 1000;

/// The route of the elicitation pages.
pub(super) const ROUTE: &str = "/sign/{token}";

/// Issues and checks tokens, and records visits to their pages.
pub(super) struct ElicitationTokens {
    database: Arc<Database>,
    origin: String,
    /// The number of visits so far; wakes those who wait for one.
    visits: watch::Sender<u64>,
}

impl ElicitationTokens {
    pub(super) fn new(database: Arc<Database>, port: u16) -> Self {
        Self {
            database,
            origin: format!("http://127.0.0.1:{port}"),
            visits: watch::Sender::new(0),
        }
    }

    /// Issues a token for a call (tool and arguments as JSON text).
    pub(super) fn issue(&self, work: &str) -> Result<String, DemoError> {
        let token = random_id().map_err(DemoError::io("generate a token"))?;
        let database = self.database.lock();
        database.execute(
            "DELETE FROM ticket WHERE issued_ms <= ?1",
            [now_ms() - TTL_MS],
        )?;
        database.execute(
            "INSERT INTO ticket (ticket, work, issued_ms) VALUES (?1, ?2, ?3)",
            params![token, work, now_ms()],
        )?;
        Ok(token)
    }

    /// Whether this token was issued for this call and has not expired.
    pub(super) fn is_valid(&self, token: &str, work: &str) -> rusqlite::Result<bool> {
        self.database.lock().query_row(
            "SELECT EXISTS (SELECT 1 FROM ticket WHERE ticket = ?1 AND work = ?2 AND issued_ms > ?3)",
            params![token, work, now_ms() - TTL_MS],
            |row| row.get(0),
        )
    }

    /// The URL of a token's page.
    pub(super) fn page_url(&self, token: &str) -> String {
        format!("{}{}", self.origin, ROUTE.replace("{token}", token))
    }

    /// Returns once the token's page was opened.
    pub(super) async fn visited(&self, token: &str) -> rusqlite::Result<()> {
        let mut visits = self.visits.subscribe();
        loop {
            visits.borrow_and_update();
            let visited = self.database.lock().query_row(
                "SELECT visited_ms FROM ticket WHERE ticket = ?1",
                [token],
                |row| row.get::<_, Option<i64>>(0),
            );
            if visited.optional()?.flatten().is_some() || visits.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    fn visit(&self, token: &str) -> rusqlite::Result<bool> {
        let known = self.database.lock().execute(
            "UPDATE ticket SET visited_ms = ?2 WHERE ticket = ?1",
            params![token, now_ms()],
        )?;
        self.visits.send_modify(|visits| *visits += 1);
        Ok(known > 0)
    }
}

/// Serves a token's page.
pub(super) async fn open(
    State(tokens): State<Arc<ElicitationTokens>>,
    Path(token): Path<String>,
) -> Result<Html<&'static str>, StatusCode> {
    match tokens.visit(&token) {
        Ok(true) => Ok(Html(
            "<!doctype html><title>Signed</title><h1>Thanks, the contract is signed.</h1><p>You can close this page.",
        )),
        Ok(false) => Err(StatusCode::NOT_FOUND),
        Err(error) => {
            tracing::error!(%error, "could not save a visit");
            Err(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}
