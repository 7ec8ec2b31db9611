//! Writes the links' saves and reports the outcomes to them.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    auth::NoticeSink,
    domain::{NoticeLevel, RequestError, Row, SessionEvent, SessionResponse, Stamp, text},
    engine::{
        clock::Clock,
        driver::state::{Driver, Linked, Saver, Trouble},
        journal::{Job, JournalError, Outcome},
        snapshots::Snapshots,
    },
    link::{Input, Output, SaveToken},
};

/// Publishes a warning.
pub(super) fn notice(snapshots: &Arc<Snapshots>, clock: Clock) -> NoticeSink {
    let snapshots = Arc::clone(snapshots);
    Arc::new(move |text| {
        snapshots.notice(clock.now().wall, NoticeLevel::Warning, text);
    })
}

impl Driver<'_> {
    /// Forgets what waited for a save that failed. A list of tools stands by itself, and a change is saved later.
    fn drop_held(&mut self, index: usize, token: SaveToken, why: &str) {
        let Some(linked) = self.links.get_mut(index) else {
            return;
        };
        let held = std::mem::take(&mut linked.held);
        let (failed, held): (VecDeque<_>, _) = held.into_iter().partition(|(of, _)| *of == token);
        linked.held = held;
        for (_, output) in failed {
            let Output::Answer { ask, outcome, .. } = output else {
                continue;
            };
            match outcome {
                // Its link withdraws the call and reports it.
                Ok(SessionResponse::Started(_)) => {}
                Ok(SessionResponse::Accepted | SessionResponse::Adopted(_)) => {
                    let words = format!(
                        "not saved: {why}; longhaul keeps trying, but the change is lost if longhaul exits first"
                    );
                    self.respond(ask, Err(RequestError::CannotSave(words)));
                }
                outcome => self.respond(ask, outcome),
            }
        }
    }

    pub(super) fn write(&mut self, who: Saver, rows: Arc<Vec<Row>>, is_vital: bool, now: Stamp) {
        if let Err(who) = self.saves.journal.save(Job {
            who,
            rows,
            is_vital,
        }) {
            self.written(&who, Err(JournalError::NotQueued), now);
        }
    }

    pub(super) fn all_written(&mut self, outcomes: Vec<Outcome<Saver>>, now: Stamp) {
        for (who, outcome) in outcomes {
            self.written(&who, outcome, now);
        }
        // A result may be what a proxy waits for.
        let has_settled = |linked: &Linked| linked.link.has_settled_view();
        if self.proxies.are_waiting() && self.links.iter().any(has_settled) {
            self.publish_changes(now);
        }
    }

    /// A save succeeded or failed: the outputs that waited for it are carried out or dropped.
    pub(super) fn written(&mut self, who: &Saver, outcome: Result<(), JournalError>, now: Stamp) {
        match *who {
            Saver::Own(number) => {
                let mut waiting = self.saves.own.waiting.iter();
                let Some(place) = waiting.position(|save| save.number == number) else {
                    return;
                };
                let save = self.saves.own.waiting.swap_remove(place);
                let answer = match outcome {
                    Ok(()) => {
                        let is_forgotten = save.view.task.forgotten_at.is_some();
                        let id = save.view.task.id.clone();
                        self.snapshots
                            .publish(SessionEvent::Task(Arc::new(save.view)));
                        if is_forgotten {
                            self.snapshots.publish(SessionEvent::Erased(id));
                        }
                        Ok(SessionResponse::Accepted)
                    }
                    Err(error) => Err(RequestError::CannotSave(error.to_string())),
                };
                if let Some(ask) = save.ask {
                    self.respond(ask, answer);
                }
            }
            Saver::Link(index, token) => match outcome {
                Ok(()) => {
                    if let Some(Trouble { tries, .. }) = self.saves.trouble.take() {
                        let tries = text::plural(tries, "failed attempt");
                        let words = format!("saving works again after {tries}");
                        self.notice(NoticeLevel::Info, words, now);
                    }
                    if let Some(linked) = self.links.get_mut(index) {
                        linked.durable = linked.durable.max(token);
                    }
                    let had_room = self.saves.unsaved.has_room();
                    self.feed(index, Input::Saved(token), now);
                    self.release(index, now);
                    if !had_room && self.saves.unsaved.has_room() {
                        self.feed_all(|| Input::Timer, now);
                    }
                }
                Err(error) => {
                    let why = error.to_string();
                    self.drop_held(index, token, &why);
                    // Retried once a second, reported once.
                    match &mut self.saves.trouble {
                        Some(trouble) if trouble.error == error => trouble.tries += 1,
                        trouble => {
                            let tries = trouble.as_ref().map_or(0, |before| before.tries) + 1;
                            let is_deaf = trouble.as_ref().is_some_and(|before| before.is_deaf);
                            *trouble = Some(Trouble {
                                error,
                                tries,
                                is_deaf,
                            });
                            let words = format!("{why}; retrying");
                            self.notice(NoticeLevel::Error, words, now);
                        }
                    }
                    if let Some(trouble) = &mut self.saves.trouble
                        && !self.saves.unsaved.has_room()
                        && !std::mem::replace(&mut trouble.is_deaf, true)
                    {
                        let words = format!(
                            "{} of results are waiting to be saved, so longhaul has stopped reading from servers",
                            text::bytes(self.saves.unsaved.result_bytes() as u64)
                        );
                        self.notice(NoticeLevel::Error, words, now);
                    }
                    self.feed(index, Input::SaveFailed { token, why }, now);
                }
            },
        }
    }
}
