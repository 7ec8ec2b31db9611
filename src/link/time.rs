//! Arithmetic with deadlines and waits.

use core::time::Duration;

use crate::domain::Mono;

/// The earlier of two moments that may be absent.
pub(super) fn earliest(one: Option<Mono>, other: Option<Mono>) -> Option<Mono> {
    one.into_iter().chain(other).min()
}

/// `first` doubled `times`, at most `cap`.
pub(super) fn doubled(first: Duration, times: u32, cap: Duration) -> Duration {
    first
        .checked_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX))
        .unwrap_or(cap)
        .min(cap)
}

/// Up to a quarter more, so that many clients do not knock in step; never less, `retry` is a minimum.
pub(super) fn jittered(wait: Duration, rng: &mut fastrand::Rng) -> Duration {
    let quarter = u64::try_from(wait.as_millis() / 4).unwrap_or(0);
    wait + Duration::from_millis(rng.u64(0..=quarter))
}
