//! Whether the server can be reached, when to try again, and how many requests an hour we allow ourselves.

use core::time::Duration;

use super::time::{doubled, jittered};
use crate::domain::{Mono, Stamp, Wall};

/// The first wait after a failed try; the try itself came at once.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// No wait is longer than this part of the outage: contact comes back that much later than the network at the most.
const OF_OUTAGE: u32 = 4;
/// The longest wait in the first ten minutes: a person who repairs the network is watching.
const SOON: Duration = Duration::from_secs(5);
/// When a short outage has become a long one.
const LONG_OUTAGE: Duration = Duration::from_secs(600);
/// The longest wait in a long outage.
const LATER: Duration = Duration::from_secs(30);
/// How long after a refused connection a lost session is taken as a restart of the server.
const RESTART_MEMORY: Duration = Duration::from_secs(120);

/// How long a prober may take before the next may go: a call as prober can be silent for hours.
const PROBE_PATIENCE: Duration = Duration::from_secs(10);

/// Of a link: requests that may go out at once without having been asked for by a person, and how many it regains in
/// an hour; together they stay below 1,000 in any hour.
///
/// The hops of a redirect are known only once they are made, so that a few requests at once can cost more than was there.
const OF_LINK: (f64, f64) = (240.0, 690.0);
/// Of each stream on top, for being asked for again: below 150 in any hour. Without it a hundred streams that a bad
/// network cuts together would use up the link's and wait for each other.
const OF_STREAM: (f64, f64) = (30.0, 115.0);

/// The way to one server: connect failures back off here, for all its streams, with one prober.
#[derive(Debug)]
pub(super) struct Reachability {
    /// The outage, if there is one.
    pub(super) down: Option<Down>,
    refused_at: Option<Mono>,
    budget: Budget,
}

/// How many requests an hour go out by themselves: a bucket that fills steadily.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget {
    burst: f64,
    an_hour: f64,
    tokens: f64,
    filled_at: Mono,
}

impl Budget {
    fn new((burst, an_hour): (f64, f64), now: Mono) -> Self {
        Self {
            burst,
            an_hour,
            tokens: burst,
            filled_at: now,
        }
    }

    /// What a stream may spend beside its link.
    pub(super) fn of_stream(now: Mono) -> Self {
        Self::new(OF_STREAM, now)
    }

    /// Takes one request, or says when there will be one.
    pub(super) fn spend(&mut self, now: Mono) -> Result<(), Mono> {
        self.tokens = self.tokens_at(now);
        self.filled_at = now;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        Err(now.after(self.regains(1.0 - self.tokens)))
    }

    /// Takes requests that have gone out already; what is missing has to be regained before the next.
    pub(super) fn charge(&mut self, now: Mono, requests: u32) {
        let left = self.tokens_at(now) - f64::from(requests);
        (self.tokens, self.filled_at) = (left.max(-self.burst), now);
    }

    /// When there will be one, if not now.
    pub(super) fn next(&self, now: Mono) -> Option<Mono> {
        let missing = 1.0 - self.tokens_at(now);
        (missing > 0.0).then(|| now.after(self.regains(missing)))
    }

    fn tokens_at(&self, now: Mono) -> f64 {
        let regained = now.since(self.filled_at).as_secs_f64() * self.an_hour / 3600.0;
        (self.tokens + regained).min(self.burst)
    }

    /// How long it takes to regain this much; a little more, so that it is there when the time has come.
    fn regains(&self, tokens: f64) -> Duration {
        let time = Duration::try_from_secs_f64(tokens * 3600.0 / self.an_hour).unwrap_or(LATER);
        time + Duration::from_millis(2)
    }
}

/// An outage.
#[derive(Clone, Debug)]
pub(super) struct Down {
    pub(super) since: Stamp,
    pub(super) tries: u32,
    pub(super) next: Mono,
    pub(super) next_wall: Wall,
    pub(super) why: String,
    probing_since: Option<Mono>,
}

impl Down {
    /// When the next try is due, given the one that is out.
    fn due(&self) -> Mono {
        self.probing_since
            .map_or(self.next, |at| self.next.max(at.after(PROBE_PATIENCE)))
    }
}

impl Reachability {
    pub(super) fn new(now: Stamp) -> Self {
        Self {
            down: None,
            refused_at: None,
            budget: Budget::new(OF_LINK, now.mono),
        }
    }

    /// Whether a request may go out now: freely when the way is open, one prober at a time when it is not.
    pub(super) fn may_send(&self, now: Stamp) -> bool {
        self.down.as_ref().is_none_or(|down| now.mono >= down.due())
    }

    /// When [`Self::may_send`] turns true by the passing of time.
    pub(super) fn next_try(&self) -> Option<Mono> {
        self.down.as_ref().map(Down::due)
    }

    /// When an automatic request may go out, if not now: the outage and the budget both have a say.
    pub(super) fn allowed_at(&self, now: Stamp) -> Option<Mono> {
        self.way_at(now).max(self.budget.next(now.mono))
    }

    /// As [`Self::allowed_at`], for what has a budget of its own beside the link's.
    pub(super) fn allowed_with(&self, own: &Budget, now: Stamp) -> Option<Mono> {
        let (ours, own) = (self.budget.next(now.mono), own.next(now.mono));
        // None is now.
        self.way_at(now).max(ours.min(own))
    }

    fn way_at(&self, now: Stamp) -> Option<Mono> {
        self.next_try().filter(|at| *at > now.mono)
    }

    /// A request goes out; during an outage it is the prober.
    pub(super) fn sent(&mut self, now: Stamp) {
        if let Some(down) = &mut self.down {
            down.probing_since = Some(now.mono);
        }
    }

    /// The prober was given up before it could tell; the next may go.
    pub(super) fn prober_gone(&mut self) {
        if let Some(down) = &mut self.down {
            down.probing_since = None;
        }
    }

    /// Something came back: the way is open. Returns whether it was not before.
    pub(super) fn worked(&mut self) -> bool {
        self.down.take().is_some()
    }

    /// A connection could not be made, or broke before an answer.
    pub(super) fn failed(
        &mut self,
        now: Stamp,
        why: String,
        is_refused: bool,
        at_least: Option<Duration>,
        rng: &mut fastrand::Rng,
    ) {
        if is_refused {
            self.refused_at = Some(now.mono);
        }
        if let Some(down) = &mut self.down
            && now.mono < down.next
        {
            // It went out before the outage was known: the streams that a cut takes with it are one try, not many.
            let at_least = at_least.unwrap_or_default();
            down.next = down.next.max(now.mono.after(at_least));
            down.next_wall = down.next_wall.max(now.wall.after(at_least));
            return;
        }
        let down = self.down.as_ref();
        let (since, tries) =
            down.map_or((now, 1), |down| (down.since, down.tries.saturating_add(1)));
        let lasted = now.mono.since(since.mono);
        let cap = if lasted > LONG_OUTAGE {
            LATER
        } else {
            (lasted / OF_OUTAGE).clamp(FIRST_WAIT, SOON)
        };
        let wait =
            jittered(doubled(FIRST_WAIT, tries - 1, cap), rng).max(at_least.unwrap_or_default());
        self.down = Some(Down {
            since,
            tries,
            next: now.mono.after(wait),
            next_wall: now.wall.after(wait),
            why,
            probing_since: None,
        });
    }

    /// A person, or a wake from sleep, wants the next try now.
    pub(super) fn hurry(&mut self, now: Stamp) {
        if let Some(down) = &mut self.down {
            (down.next, down.next_wall) = (now.mono, now.wall);
            down.probing_since = None;
        }
    }

    /// Whether connections were refused after `seen` and so lately that a lost session means a restarted server.
    pub(super) fn was_refused_lately(&self, now: Stamp, seen: Mono) -> bool {
        self.refused_at
            .is_some_and(|at| at >= seen && now.mono.since(at) < RESTART_MEMORY)
    }

    /// Takes one automatic request from the budget, or says when there will be one.
    pub(super) fn spend(&mut self, now: Stamp) -> Result<(), Mono> {
        self.budget.spend(now.mono)
    }

    /// Takes requests that have gone out already.
    pub(super) fn charge(&mut self, now: Stamp, requests: u32) {
        self.budget.charge(now.mono, requests);
    }

    /// Gives one request back that did not go out.
    pub(super) fn refund(&mut self, now: Stamp) {
        self.budget.tokens = (self.budget.tokens_at(now.mono) + 1.0).min(self.budget.burst);
        self.budget.filled_at = now.mono;
    }

    /// Takes one request that could be done without: only while there are plenty left for those that could not.
    pub(super) fn spend_spare(&mut self, now: Stamp) -> bool {
        self.budget.tokens_at(now.mono) >= self.plenty() && self.spend(now).is_ok()
    }

    /// When [`Self::spend_spare`], or else [`Self::spend`], finds room again.
    pub(super) fn room_at(&self, now: Stamp, is_spare: bool) -> Mono {
        let wanted = if is_spare { self.plenty() } else { 1.0 };
        let missing = wanted - self.budget.tokens_at(now.mono);
        now.mono.after(self.budget.regains(missing.max(0.0)))
    }

    fn plenty(&self) -> f64 {
        self.budget.burst / 3.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Stamp {
        Stamp {
            mono: Mono(ms),
            wall: Wall(i64::try_from(ms).unwrap()),
        }
    }

    #[test]
    fn an_hour_of_failures_stays_within_the_bound() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut path = Reachability::new(at(0));
        let (mut now, mut tries) = (0, 0);
        while now < 3_600_000 {
            path.failed(at(now), "refused".into(), true, None, &mut rng);
            tries += 1;
            let next = path.next_try().unwrap().0;
            assert!(next - now <= 38_000, "the next try is never far");
            now = next;
        }
        assert!((150..400).contains(&tries), "{tries}");
    }

    #[test]
    fn contact_comes_back_at_most_a_third_later_than_the_network() {
        for (outage, seed) in (0..600_u64).flat_map(|second| [(second, 1), (second, 2)]) {
            let end = outage * 1000;
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut path = Reachability::new(at(0));
            let (mut now, mut tries) = (0, 0);
            while now < end {
                path.failed(at(now), "refused".into(), true, None, &mut rng);
                tries += 1;
                now = path.next_try().unwrap().0;
            }
            assert!(now <= end + end / 3 + 700, "{outage} s: tried at {now} ms");
            assert!(now <= end + 6300, "{outage} s: tried at {now} ms");
            assert!(tries <= 16 + outage / 5, "{outage} s: {tries} tries");
        }
    }

    #[test]
    fn streams_that_fall_together_are_one_try() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut path = Reachability::new(at(0));
        for _ in 0..8 {
            path.failed(at(0), "refused".into(), true, None, &mut rng);
        }
        assert_eq!(path.down.as_ref().unwrap().tries, 1);
        assert!(path.next_try().unwrap().0 <= 700);
    }

    #[test]
    fn one_prober_at_a_time() {
        let mut path = Reachability::new(at(0));
        path.failed(
            at(0),
            "refused".into(),
            true,
            None,
            &mut fastrand::Rng::with_seed(1),
        );
        assert!(!path.may_send(at(100)) && path.may_send(at(1000)));
        path.sent(at(1000));
        assert!(!path.may_send(at(10_900)), "the prober has time to tell");
        assert!(path.may_send(at(11_000)), "but not for ever");
        assert!(path.worked() && path.may_send(at(1000)));
    }

    #[test]
    fn the_budget_of_any_hour_is_below_a_thousand() {
        let mut path = Reachability::new(at(0));
        let spent = (0..3_600_000)
            .step_by(50)
            .filter(|ms| path.spend(at(*ms)).is_ok())
            .count();
        assert!((920..950).contains(&spent), "{spent}");
        let mut own = Budget::of_stream(Mono(0));
        let spent = (0..3_600_000)
            .step_by(50)
            .filter(|ms| own.spend(Mono(*ms)).is_ok())
            .count();
        assert!((140..150).contains(&spent), "{spent}");
    }

    #[test]
    fn an_hour_of_redirects_is_within_the_bound() {
        // Sixteen at once, each with three hops that are known when it is answered.
        let mut path = Reachability::new(at(0));
        let mut requests = 0;
        for ms in (0..3_600_000).step_by(50) {
            let sent = (0..16).filter(|_| path.spend(at(ms)).is_ok()).count();
            (0..sent).for_each(|_| path.charge(at(ms), 3));
            requests += 4 * sent;
        }
        assert!((900..1000).contains(&requests), "{requests}");
    }

    #[test]
    fn budget_never_exceeds_its_burst_and_reports_next_time() {
        let day = 24 * 3_600_000;
        let mut own = Budget::of_stream(Mono(0));
        let spent = (0..1000).filter(|_| own.spend(Mono(day)).is_ok()).count();
        assert_eq!(spent, 30, "after a day of rest");
        let next = own.spend(Mono(day)).unwrap_err();
        assert_eq!(own.next(Mono(day)), Some(next));
        assert!(own.clone().spend(Mono(next.0 - 100)).is_err());
        assert!(own.spend(next).is_ok());
    }
}
