//! History and results on their way to the disk.
//!
//! A task with very many steps keeps a part of them only. Where they come faster than they are written, the others are
//! left out here already, so that a burst costs neither memory nor time for what the session file would drop.

use std::collections::VecDeque;

use crate::domain::{ByteShare, HistoryEntry, HistoryEvent, SharedByteCount, text};

/// Bytes of history that may wait of one task; above, steps and log lines are counted instead of kept. A quarter of a
/// second of the fastest stream is a third of it, so it is reached only while the disk is slow or full.
const OF_ONE: usize = 32 << 20;
/// The same of all tasks together, however many there are.
const OF_ALL: usize = 64 << 20;
/// Bytes of results that may wait of all tasks together. None is dropped: above, nothing more is read from any server
/// until they are saved. What was on its way then comes on top, and has bounds of its own: the engine's inbox, and the
/// events that the exchanges hold.
const RESULTS: usize = 64 << 20;
/// Steps of a task that are all kept; the session file thins what is above.
const STEPS_KEPT: u64 = 10_000;
/// Entries that may wait of a task with more steps than that, before the oldest are thinned.
const AT_ONCE: usize = 2048;
/// Of those thinned, one in so many stays each time.
const RATIO: u64 = 4;
/// Thinned steps above which they are thinned again.
const THINNED: usize = 2048;

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
    /// What was thinned.
    older: Vec<HistoryEntry>,
    /// Steps among it.
    older_steps: usize,
    newest: VecDeque<HistoryEntry>,
    /// About how much memory all that takes.
    part: ByteShare,
    /// Counts what is thinned.
    turn: u64,
    /// The number of the entry that says how many were left out, and how many that is.
    mark: Option<(u64, u64)>,
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
        self.newest.is_empty() && self.older.is_empty()
    }

    /// Whether what comes in any number has to be counted from here on instead of kept.
    pub(super) fn is_full(&self, what: &HistoryEvent) -> bool {
        let more = what.weight();
        self.part.bytes().saturating_add(more) > OF_ONE
            || self.part.total().sum().saturating_add(more) > OF_ALL
    }

    pub(super) fn push(&mut self, entry: HistoryEntry) {
        let is_long = entry.seq > STEPS_KEPT;
        self.part.add(entry.what.weight());
        self.newest.push_back(entry);
        // One in, one out: what goes makes room for what comes.
        if is_long
            && self.older.len() + self.newest.len() > AT_ONCE
            && let Some(oldest) = self.newest.pop_front()
        {
            self.retire(oldest);
            if self.older_steps > THINNED {
                self.older_steps = 0;
                for entry in std::mem::take(&mut self.older) {
                    self.retire(entry);
                }
            }
        }
    }

    fn retire(&mut self, mut entry: HistoryEntry) {
        if matches!(entry.what, HistoryEvent::Progress { .. }) {
            self.turn += 1;
            if self.turn.is_multiple_of(RATIO) {
                self.older_steps += 1;
            } else {
                self.part.remove(entry.what.weight());
                if let Some((_, count)) = &mut self.mark {
                    *count += 1;
                    return;
                }
                self.mark = Some((entry.seq, 1));
                entry.event_id = None;
                entry.what = HistoryEvent::Status {
                    status: "running".to_owned(),
                    reason: None,
                };
            }
        }
        self.older.push(entry);
    }

    /// Takes everything out.
    pub(super) fn take(&mut self) -> Vec<HistoryEntry> {
        let Self {
            mut older,
            newest,
            mark,
            ..
        } = self.emptied();
        if older.is_empty() {
            return newest.into();
        }
        if let Some((seq, count)) = mark
            && let Some(entry) = older.iter_mut().find(|entry| entry.seq == seq)
            && let HistoryEvent::Status { reason, .. } = &mut entry.what
        {
            *reason = Some(format!(
                "omitted to keep the history small: {} that arrived too fast",
                text::plural(count, "progress step")
            ));
        }
        older.extend(newest);
        older
    }

    fn emptied(&mut self) -> Self {
        let empty = Self::sharing(self.part.total());
        std::mem::replace(self, empty)
    }

    /// Puts back what was taken and could not be written.
    pub(super) fn put_back(&mut self, entries: Vec<HistoryEntry>) {
        let Self {
            older,
            newest,
            mark,
            ..
        } = self.emptied();
        // What came since may be thinned already, and its mark stands among the older ones.
        (self.older, self.mark) = (entries.into_iter().chain(older).collect(), mark);
        self.part
            .add(self.older.iter().map(|entry| entry.what.weight()).sum());
        for entry in newest {
            self.push(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Wall;

    fn step(seq: u64) -> HistoryEntry {
        HistoryEntry {
            seq,
            at: Wall(0),
            attempt: 1,
            event_id: Some(format!("s/{seq}").into()),
            what: HistoryEvent::Progress {
                value: 1.0,
                total: None,
                message: None,
            },
        }
    }

    #[test]
    fn the_first_ten_thousand_steps_are_all_kept() {
        let mut pending = Pending::default();
        (1..=STEPS_KEPT).for_each(|seq| pending.push(step(seq)));
        let seqs: Vec<u64> = pending.take().iter().map(|entry| entry.seq).collect();
        assert_eq!(seqs, (1..=STEPS_KEPT).collect::<Vec<_>>());
        assert!(pending.is_empty());
    }

    #[test]
    fn thins_a_burst_in_order_and_reports_the_count() {
        let mut pending = Pending::default();
        let (first, last) = (20_000, 220_000);
        for seq in first..=last {
            pending.push(if seq % 50_000 == 0 {
                HistoryEntry {
                    what: HistoryEvent::Status {
                        status: "running".to_owned(),
                        reason: Some("a notice".to_owned()),
                    },
                    ..step(seq)
                }
            } else {
                step(seq)
            });
            assert!(pending.part.bytes() < 8 * 1024 * 1024);
        }
        let kept = pending.take();
        assert!(kept.len() <= AT_ONCE + THINNED, "{}", kept.len());
        assert!(kept.is_sorted_by(|one, next| one.seq < next.seq));
        assert_eq!(kept.last().map(|entry| entry.seq), Some(last));
        let reasons: Vec<&str> = kept
            .iter()
            .filter_map(|entry| match &entry.what {
                HistoryEvent::Status { reason, .. } => reason.as_deref(),
                _ => None,
            })
            .collect();
        let left_out = last - first + 1 - kept.len() as u64 + 1;
        let words = text::plural(left_out, "progress step");
        assert_eq!(reasons.len(), 5, "{reasons:?}");
        assert!(reasons[0].contains(&words), "{words}: {reasons:?}");
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
                    let fits = !pending.is_full(&entry.what);
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
