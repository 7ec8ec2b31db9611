//! A compact queue of history entries.
//!
//! Progress steps come by the hundred thousand, each with a short message. As a separate [`HistoryEntry`], each would
//! need its own heap allocations, made on one thread and freed on another. This queue stores their texts in one buffer
//! instead. Invariant: entries come out unchanged and in order.

use std::{collections::VecDeque, fmt};

use super::{EventId, HistoryEntry, HistoryEvent, Wall};

/// Bytes of removed texts that are tolerated before the rest is moved to the front of the buffer.
const SLACK: usize = 16 * 1024;

/// History entries of one task, oldest first.
#[derive(Clone, Default)]
pub struct Entries {
    slots: VecDeque<Slot>,
    /// Event id and message of each step, without separators.
    texts: String,
    /// Byte offset of the oldest step's texts.
    front: usize,
}

#[derive(Clone)]
enum Slot {
    Step(Step),
    /// Any entry other than a progress step.
    Whole(Box<HistoryEntry>),
}

#[derive(Clone, Copy)]
struct Step {
    seq: u64,
    at: Wall,
    value: f64,
    total: Option<f64>,
    attempt: u32,
    /// Length in bytes of the event id and of the message.
    texts: [Option<u32>; 2],
}

impl Entries {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Appends the newest entry.
    pub fn push(&mut self, entry: HistoryEntry) {
        let slot = match &entry.what {
            HistoryEvent::Progress {
                value,
                total,
                message,
            } => {
                let id = entry.event_id.as_deref().unwrap_or_default();
                let text = message.as_deref().unwrap_or_default();
                // Event texts are capped far below this when they are decoded.
                let length = |text: &str| u32::try_from(text.len()).unwrap_or(u32::MAX);
                self.texts.push_str(id);
                self.texts.push_str(text);
                Slot::Step(Step {
                    seq: entry.seq,
                    at: entry.at,
                    value: *value,
                    total: *total,
                    attempt: entry.attempt,
                    texts: [
                        entry.event_id.as_ref().map(|_| length(id)),
                        message.as_ref().map(|_| length(text)),
                    ],
                })
            }
            _ => Slot::Whole(Box::new(entry)),
        };
        self.slots.push_back(slot);
    }

    /// Removes the oldest entry.
    pub fn pop_front(&mut self) -> Option<HistoryEntry> {
        let slot = self.slots.pop_front()?;
        let entry = read(&slot, &self.texts, &mut self.front);
        if self.front > SLACK && self.front * 2 > self.texts.len() {
            self.texts.drain(..self.front);
            self.front = 0;
        }
        Some(entry)
    }

    /// All entries, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = HistoryEntry> {
        let mut position = self.front;
        let read = move |slot| read(slot, &self.texts, &mut position);
        self.slots.iter().map(read)
    }
}

/// The entry in a slot. `position` is the offset of its texts and advances past them.
fn read(slot: &Slot, texts: &str, position: &mut usize) -> HistoryEntry {
    let step = match slot {
        Slot::Whole(entry) => return HistoryEntry::clone(entry),
        Slot::Step(step) => step,
    };
    let [event_id, message] = step.texts.map(|length| {
        let start = *position;
        *position += usize::try_from(length?).unwrap_or(usize::MAX);
        texts.get(start..*position)
    });
    HistoryEntry {
        seq: step.seq,
        at: step.at,
        attempt: step.attempt,
        event_id: event_id.map(EventId::new),
        what: HistoryEvent::Progress {
            value: step.value,
            total: step.total,
            message: message.map(Into::into),
        },
    }
}

impl Extend<HistoryEntry> for Entries {
    fn extend<I: IntoIterator<Item = HistoryEntry>>(&mut self, entries: I) {
        entries.into_iter().for_each(|entry| self.push(entry));
    }
}

impl FromIterator<HistoryEntry> for Entries {
    fn from_iter<I: IntoIterator<Item = HistoryEntry>>(entries: I) -> Self {
        let mut all = Self::default();
        all.extend(entries);
        all
    }
}

impl PartialEq for Entries {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seq: u64) -> HistoryEntry {
        let text = "ä".repeat(usize::try_from(seq % 40).unwrap());
        let is_bare = seq.is_multiple_of(3);
        HistoryEntry {
            seq,
            at: Wall(i64::try_from(seq).unwrap() * 7),
            attempt: 1 + u32::try_from(seq / 100).unwrap(),
            event_id: (!is_bare).then(|| EventId::new(format!("s/{seq}"))),
            what: if seq.is_multiple_of(5) {
                HistoryEvent::Status {
                    status: text,
                    reason: None,
                }
            } else {
                HistoryEvent::Progress {
                    value: seq as f64 / 3.0,
                    total: seq.is_multiple_of(2).then_some(1e9),
                    message: (!seq.is_multiple_of(7)).then(|| text.into()),
                }
            },
        }
    }

    #[test]
    fn entries_come_out_unchanged_and_in_order() {
        let mut kept = Entries::default();
        let mut oldest = 0;
        for seq in 0..20_000 {
            kept.push(entry(seq));
            if kept.len() > 100 {
                assert_eq!(kept.pop_front(), Some(entry(oldest)));
                oldest += 1;
            }
            assert!(kept.texts.len() < 4 * SLACK, "{}", kept.texts.len());
        }
        assert!(kept.iter().eq((oldest..20_000).map(entry)));
        assert_eq!(kept, kept.iter().collect());
        while let Some(next) = kept.pop_front() {
            assert_eq!(next, entry(oldest));
            oldest += 1;
        }
        assert_eq!((oldest, kept.is_empty()), (20_000, true));
    }
}
