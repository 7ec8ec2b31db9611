//! When the screen next changes through time alone.

use crate::domain::{Mono, Stamp};

use super::{
    ExitWhen, State,
    alerts::WindowFocus,
    select::{HOLD_AFTER_KEY, MIN_REORDER_INTERVAL, may_reorder, visible_rows},
};

/// The interval of an animated progress bar, in milliseconds.
pub const FRAME_MS: u64 = 250;
/// The interval of ages, rates and countdowns, in milliseconds.
const SECOND_MS: u64 = 1_000;
/// Dates are checked every hour: from midnight on, tasks of the day before are shown with their date.
const HOUR_MS: i64 = 3_600_000;

/// When the shell should send a [`super::Event::Tick`]; `None` if nothing changes on its own.
///
/// Once a second while ages are shown, once a frame while a bar moves, once an hour for the date.
pub fn next_wake(state: &State, now: Stamp) -> Option<Mono> {
    if state.exit.note.is_some() {
        return None;
    }
    let toasts = state.messages.toasts.iter();
    let mut wakes: Vec<Mono> = toasts.map(|toast| toast.until).collect();
    wakes.extend(state.messages.reply.iter().map(|notice| notice.until));
    if state.exit.when != ExitWhen::No {
        wakes.push(next_step(now.mono, SECOND_MS));
    }
    if state.frozen.is_none() {
        let into_hour = now.wall.0.rem_euclid(HOUR_MS);
        let to_hour = u64::try_from(HOUR_MS - into_hour).unwrap_or(SECOND_MS);
        wakes.push(Mono(now.mono.0.saturating_add(to_hour)));
        if ages(state) {
            wakes.push(next_step(now.mono, SECOND_MS));
        }
        if !state.setup.look.no_motion && state.window != WindowFocus::Lost && has_animation(state)
        {
            wakes.push(next_step(now.mono, FRAME_MS));
        }
    }
    wakes.extend(state.alerts.due());
    let refresh = &state.list.refresh;
    let after = |last: Option<Mono>| last.unwrap_or(now.mono).after(MIN_REORDER_INTERVAL);
    if let Some(key) = state.last_key
        && !may_reorder(state, now)
        && (refresh.is_order_stale || !refresh.regrouping.is_empty())
    {
        wakes.push(key.after(HOLD_AFTER_KEY));
    } else if refresh.is_order_stale {
        wakes.push(after(refresh.rebuilt_at));
    }
    wakes
        .into_iter()
        .map(|wake| wake.max(Mono(now.mono.0.saturating_add(1))))
        .min()
}

fn next_step(now: Mono, step: u64) -> Mono {
    Mono((now.0 / step).saturating_add(1).saturating_mul(step))
}

/// Whether anything on the screen counts seconds. If not, the clock is hidden too, so that an idle screen is never
/// redrawn.
pub fn ages(state: &State) -> bool {
    let down = state
        .servers
        .iter()
        .any(|server| matches!(server.state, crate::domain::LinkState::Down { .. }));
    down || !state.totals.open.is_empty()
}

/// Whether an animated progress bar (one without a total) is on the screen.
fn has_animation(state: &State) -> bool {
    visible_rows(state).iter().any(|id| {
        state.task(id).is_some_and(|task_row| {
            let task = &task_row.view.task;
            let has_total = task.progress.as_ref().is_some_and(|p| p.total.is_some());
            task_row.is_moving() && !has_total
        })
    })
}
