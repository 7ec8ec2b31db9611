//! Tickets: names that cannot be guessed, given out with a question and shown again with its answer.
//!
//! A ticket is the `requestState` of a modern call that asks before it starts, the `elicitationId` of a question that is
//! answered on a page, and the address of that page. Owns the table `ticket` and the page. Must not know the questions.
//! Invariant: a ticket counts for the tool and the arguments that it was given out for, and for nothing else.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::Html,
};
use rusqlite::{OptionalExtension, params};
use tokio::sync::watch;

use super::{
    DemoError,
    disk::{Disk, now_ms, random_id},
};

/// How long a ticket counts: an hour, in milliseconds.
const TTL_MS: i64 = 3600 * 1000;
/// Where the pages are, on the server's own address.
pub(super) const ROUTE: &str = "/sign/{ticket}";

/// All tickets.
pub(super) struct Tickets {
    disk: Arc<Disk>,
    /// What the addresses of pages begin with.
    origin: String,
    /// Counts visits.
    visits: watch::Sender<u64>,
}

impl Tickets {
    pub(super) fn new(disk: Arc<Disk>, port: u16) -> Self {
        Self {
            disk,
            origin: format!("http://127.0.0.1:{port}"),
            visits: watch::Sender::new(0),
        }
    }

    /// Gives out a ticket for a piece of work.
    pub(super) fn issue(&self, work: &str) -> Result<String, DemoError> {
        let ticket = random_id().map_err(DemoError::io("draw a ticket"))?;
        let disk = self.disk.lock();
        disk.execute(
            "DELETE FROM ticket WHERE issued_ms <= ?1",
            [now_ms() - TTL_MS],
        )?;
        disk.execute(
            "INSERT INTO ticket (ticket, work, issued_ms) VALUES (?1, ?2, ?3)",
            params![ticket, work, now_ms()],
        )?;
        Ok(ticket)
    }

    /// Whether a ticket was given out for this piece of work.
    pub(super) fn counts(&self, ticket: &str, work: &str) -> Result<bool, rusqlite::Error> {
        self.disk.lock().query_row(
            "SELECT EXISTS (SELECT 1 FROM ticket WHERE ticket = ?1 AND work = ?2 AND issued_ms > ?3)",
            params![ticket, work, now_ms() - TTL_MS],
            |row| row.get(0),
        )
    }

    /// The page of a ticket.
    pub(super) fn page(&self, ticket: &str) -> String {
        format!("{}{}", self.origin, ROUTE.replace("{ticket}", ticket))
    }

    /// Returns once the page of a ticket has been opened.
    pub(super) async fn visited(&self, ticket: &str) -> Result<(), rusqlite::Error> {
        let mut visits = self.visits.subscribe();
        loop {
            visits.borrow_and_update();
            let visited = self.disk.lock().query_row(
                "SELECT visited_ms FROM ticket WHERE ticket = ?1",
                [ticket],
                |row| row.get::<_, Option<i64>>(0),
            );
            if visited.optional()?.flatten().is_some() || visits.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    fn visit(&self, ticket: &str) -> Result<bool, rusqlite::Error> {
        let known = self.disk.lock().execute(
            "UPDATE ticket SET visited_ms = ?2 WHERE ticket = ?1",
            params![ticket, now_ms()],
        )?;
        self.visits.send_modify(|visits| *visits += 1);
        Ok(known > 0)
    }
}

/// Answers whoever opens a page.
pub(super) async fn open(
    State(tickets): State<Arc<Tickets>>,
    Path(ticket): Path<String>,
) -> Result<Html<&'static str>, StatusCode> {
    match tickets.visit(&ticket) {
        Ok(true) => Ok(Html(
            "<!doctype html><title>Signed</title><h1>Thanks, that is signed.</h1><p>You may close this page.",
        )),
        Ok(false) => Err(StatusCode::NOT_FOUND),
        Err(error) => {
            tracing::error!(%error, "a visit could not be saved");
            Err(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}
