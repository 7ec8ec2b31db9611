//! Refusals in a row, and when they prove something.

use core::time::Duration;

use crate::domain::Mono;

/// How long something has to be refused, and how often, before the refusals prove that it is gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proof {
    pub(super) takes: Duration,
    pub(super) count: u32,
}

/// Refusals since something was last served.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusals {
    since: Mono,
    count: u32,
}

impl Refusals {
    /// Counts a refusal. Returns whether those in a row prove something.
    pub(super) fn count_in(in_a_row: &mut Option<Self>, proof: Proof, now: Mono) -> bool {
        let refusals = in_a_row.get_or_insert_with(|| Self::none_since(now));
        refusals.add();
        refusals.are(proof, now)
    }

    pub(super) fn none_since(now: Mono) -> Self {
        Self {
            since: now,
            count: 0,
        }
    }

    pub(super) fn add(&mut self) {
        self.count = self.count.saturating_add(1);
    }

    pub(super) fn are(&self, proof: Proof, now: Mono) -> bool {
        self.count >= proof.count && now.since(self.since) >= proof.takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proof_takes_time_and_number() {
        let proof = Proof {
            takes: Duration::from_secs(10),
            count: 2,
        };
        let mut refusals = Refusals::none_since(Mono(0));
        refusals.add();
        assert!(!refusals.are(proof, Mono(20_000)), "one is not enough");
        refusals.add();
        assert!(!refusals.are(proof, Mono(9_000)), "too soon");
        assert!(refusals.are(proof, Mono(10_000)));
    }
}
