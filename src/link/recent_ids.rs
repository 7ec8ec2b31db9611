//! The newest event ids of a stream, to know a duplicate.

use std::{
    fmt,
    hash::{DefaultHasher, Hasher},
};

use crate::domain::EventId;

/// Event ids remembered per stream, to know a duplicate; a replay longer than this starts at our own cursor anyway.
const IDS_REMEMBERED: usize = 1024;

/// The newest event ids of a stream, by their hash: two in 2^64 are taken for one, which costs a server that aims at it
/// its own event. A ring that is read through rather than a set: a step is known by its value, so that ids come in with
/// every event and are asked for seldom, and what is written costs one line of the processor's cache.
#[derive(Default)]
pub(super) struct RecentIds {
    hashes: Vec<u64>,
    /// Where the next one goes once the ring is full.
    next: usize,
}

impl fmt::Debug for RecentIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The hashes say nothing to anybody.
        f.debug_struct("RecentIds").finish_non_exhaustive()
    }
}

fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(id.as_bytes());
    hasher.finish()
}

impl RecentIds {
    pub(super) fn restored(ids: Vec<EventId>) -> Self {
        let mut recent = Self::default();
        for id in ids {
            recent.add(&id);
        }
        recent
    }

    pub(super) fn knows(&self, id: &str) -> bool {
        self.hashes.contains(&hash(id))
    }

    pub(super) fn add(&mut self, id: &str) {
        let hash = hash(id);
        if let Some(oldest) = self.hashes.get_mut(self.next) {
            *oldest = hash;
        } else {
            self.hashes.push(hash);
        }
        self.next = (self.next + 1) % IDS_REMEMBERED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_the_newest_event_ids() {
        let mut recent = RecentIds::default();
        for number in 0..5000 {
            recent.add(&number.to_string());
            let oldest = usize::saturating_sub(number, IDS_REMEMBERED - 1);
            assert!(recent.knows(&oldest.to_string()), "{oldest} of {number}");
        }
        assert_eq!(recent.hashes.len(), IDS_REMEMBERED);
        assert!(!recent.knows("3000"));
    }
}
