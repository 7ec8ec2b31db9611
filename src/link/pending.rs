//! History and results on their way to the disk.
//!
//! All of it waits here, up to a limit of memory. What a very long history does not keep is left out by the store.

use crate::domain::{ByteShare, HistoryEntry, SharedByteCount};

/// Bytes of history that may wait of one task; above, steps and log lines are counted instead of kept. A quarter of a
/// second of the fastest stream is a third of it, so it is reached only while the disk is slow or full.
const OF_ONE: usize = 32 << 20;
/// The same of all tasks together, however many there are.
const OF_ALL: usize = 64 << 20;
/// Bytes of results that may wait of all tasks together. None is dropped: above, nothing more is read from any server
/// until they are saved. What was on its way then comes on top, and has bounds of its own: the engine's inbox, and the
/// events that the exchanges hold.
const RESULTS: usize = 64 << 20;

/// What waits to be saved, over all links that are given the same.
#[derive(Clone, Debug, Default)]
pub struct Unsaved {
    pub(super) history: SharedByteCount,
    pub(super) results: SharedByteCount,
}

impl Unsaved {
    /// Whether more may be read from servers: what they send may be results.
    pub fn has_room(&self) -> bool {
        self.results.sum() < RESULTS
    }

    /// About how much the results take.
    pub fn result_bytes(&self) -> usize {
        self.results.sum()
    }
}

/// The entries of one task that no save holds yet, in order.
#[derive(Debug, Default)]
pub(super) struct Pending {
    entries: Vec<HistoryEntry>,
    /// About how much memory they take.
    part: ByteShare,
}

impl Pending {
    /// Counts itself in with the other tasks.
    pub(super) fn sharing(unsaved: &SharedByteCount) -> Self {
        Self {
            part: unsaved.share(),
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether entries that can arrive in any number now have to be counted instead of kept.
    pub(super) fn is_full(&self, entry: &HistoryEntry) -> bool {
        let more = entry.weight();
        self.part.bytes().saturating_add(more) > OF_ONE
            || self.part.total().sum().saturating_add(more) > OF_ALL
    }

    pub(super) fn push(&mut self, entry: HistoryEntry) {
        self.part.add(entry.weight());
        self.entries.push(entry);
    }

    /// Takes everything out.
    pub(super) fn take(&mut self) -> Vec<HistoryEntry> {
        let empty = Self::sharing(self.part.total());
        std::mem::replace(self, empty).entries
    }

    /// Puts back what was taken and could not be written, before what came since.
    pub(super) fn put_back(&mut self, mut entries: Vec<HistoryEntry>) {
        self.part
            .add(entries.iter().map(HistoryEntry::weight).sum());
        entries.append(&mut self.entries);
        self.entries = entries;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{HistoryEvent, Progress, Wall};

    fn step(seq: u64) -> HistoryEntry {
        HistoryEntry {
            seq,
            at: Wall(0),
            attempt: 1,
            event_id: Some(format!("s/{seq}").into()),
            what: HistoryEvent::Progress(Progress {
                value: 1.0,
                total: None,
                message: None,
            }),
        }
    }

    #[test]
    fn puts_unsaved_entries_back_first() {
        let mut pending = Pending::default();
        (1..=5).for_each(|seq| pending.push(step(seq)));
        let taken = pending.take();
        pending.put_back(taken);
        assert!(!pending.is_empty(), "nothing may have come since");
        let taken = pending.take();
        (6..=9).for_each(|seq| pending.push(step(seq)));
        pending.put_back(taken);
        assert_eq!(pending.part.bytes(), 9 * step(1).weight());
        let seqs: Vec<u64> = pending.take().iter().map(|entry| entry.seq).collect();
        assert_eq!(seqs, (1..=9).collect::<Vec<_>>());
    }

    #[test]
    fn bounds_pending_entries_across_tasks() {
        let all = SharedByteCount::default();
        let line = |seq| HistoryEntry {
            what: HistoryEvent::Log {
                level: crate::domain::LogLevel::Info,
                logger: None,
                data: "x".repeat(100_000),
            },
            ..step(seq)
        };
        let mut tasks: Vec<Pending> = (0..10).map(|_| Pending::sharing(&all)).collect();
        let fill = |tasks: &mut [Pending]| {
            let mut kept = Vec::new();
            for pending in tasks {
                let is_kept = |seq: &u64| {
                    let entry = line(*seq);
                    let fits = !pending.is_full(&entry);
                    if fits {
                        pending.push(entry);
                    }
                    fits
                };
                kept.push((1..=1000).filter(is_kept).count() * 100_000);
            }
            kept
        };
        let kept = fill(&mut tasks);
        assert!((OF_ONE - 200_000..=OF_ONE).contains(&kept[0]), "{kept:?}");
        assert!(kept.iter().sum::<usize>() <= OF_ALL, "{kept:?}");
        // What is saved, or goes with its task, makes room for the others.
        tasks[0].take();
        tasks.remove(1);
        assert_eq!(all.sum(), 0);
        let kept = fill(&mut tasks);
        assert!(kept.iter().sum::<usize>() > OF_ALL - 200_000, "{kept:?}");
        drop(tasks);
        assert_eq!(all.sum(), 0);
    }
}
