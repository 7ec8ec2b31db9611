//! Thins out the saved progress of long tasks.

use std::ops::Range;

use rusqlite::{Transaction, params};

use crate::{
    domain::{HistoryEntry, HistoryEvent, LogLevel, text},
    store::rows::{all, execute, first, json, parse, signed, unsigned},
};

/// The number of steps and log lines of a task above which the middle of its history is thinned, so that a chatty tool
/// does not fill the disk: with the longest texts that are kept, 160 MB.
pub(super) const STEPS_LIMIT: u64 = 10_000;

/// Steps and log lines kept at the beginning.
const STEPS_FIRST: u64 = 1000;

/// Steps and log lines kept at the end.
const STEPS_LAST: u64 = 5000;

/// Of those between, one in this many stays each time; of warnings and worse, one in this many goes.
const STEPS_RATIO: u64 = 4;

/// The most steps that one save adds to the middle, not counting warnings. Together with a quarter of those already there,
/// the history stays within its limit.
const STEPS_BETWEEN: u64 = 1500;

/// Entries that a server can send without limit.
pub(super) fn is_step(entry: &HistoryEntry) -> bool {
    matches!(
        entry.what,
        HistoryEvent::Progress(_) | HistoryEvent::Log { .. }
    )
}

/// Whether an entry goes when the middle is thinned `times` times in a row; `offset` is its place there.
fn goes(entry: &HistoryEntry, offset: u64, times: u32) -> bool {
    let is_loud =
        matches!(entry.what, HistoryEvent::Log { level, .. } if level >= LogLevel::Warning);
    let is_chosen = |time: u32| offset / STEPS_RATIO.pow(time) % STEPS_RATIO == STEPS_RATIO - 1;
    if is_loud {
        (0..times).any(is_chosen)
    } else {
        !(0..times).all(is_chosen)
    }
}

/// How many times in a row new entries are thinned, so that a burst takes no more room than many small saves.
fn times_over(total: u64) -> u32 {
    let middle = total.saturating_sub(STEPS_FIRST + STEPS_LAST);
    let (mut times, mut rest) = (1, middle / STEPS_RATIO);
    while rest > STEPS_BETWEEN {
        (times, rest) = (times + 1, rest / STEPS_RATIO);
    }
    times
}

/// A history whose middle is being thinned.
struct Thinning {
    /// Which steps and log lines are in the middle, counted from the beginning.
    middle: Range<u64>,
    dropped: u64,
    mark: Option<HistoryEntry>,
    mark_seq: Option<i64>,
}

impl Thinning {
    /// What stays of a chunk, before and after the mark, so that seq increases from chunk to chunk. `start` is the
    /// place of its first step or log line.
    fn keep<'e>(
        &mut self,
        entries: &'e [HistoryEntry],
        start: u64,
        times: u32,
    ) -> [Vec<&'e HistoryEntry>; 2] {
        let mut step = start;
        let mut kept = [Vec::new(), Vec::new()];
        for entry in entries {
            if is_step(entry) {
                let here = step;
                step += 1;
                if self.middle.contains(&here) && goes(entry, here - self.middle.start, times) {
                    self.dropped += 1;
                    if self.mark.is_none() {
                        self.mark_seq = Some(signed(entry.seq));
                        self.mark = Some(entry.clone());
                    }
                    continue;
                }
            }
            let is_behind = self.mark_seq.is_some_and(|seq| entry.seq > unsigned(seq));
            let [before, behind] = &mut kept;
            if is_behind { behind } else { before }.push(entry);
        }
        kept
    }
}

/// Adds entries to a history that has `total` steps and log lines with them, removes most of those from its middle, and
/// leaves a mark that says how many.
///
/// Contact and status lines stay, and most warnings. A chunk without steps is not read again, so the work stays in
/// proportion to what was added. The new entries are thinned before they are written, because a server can send a
/// hundred thousand of them between two saves.
pub(super) fn add_thinned(
    transaction: &Transaction<'_>,
    task: &str,
    fresh: &[HistoryEntry],
    total: u64,
) -> rusqlite::Result<()> {
    let middle = STEPS_FIRST..total.saturating_sub(STEPS_LAST);
    let (already, mark_seq): (i64, Option<i64>) = transaction
        .prepare_cached("SELECT left_out, mark_seq FROM history_size WHERE task = ?1")?
        .query_row([task], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mark = match mark_seq {
        Some(seq) => chunk(transaction, task, seq)?.and_then(|entries| entries.into_iter().next()),
        None => None,
    };
    let mut thinning = Thinning {
        middle,
        dropped: 0,
        mark,
        mark_seq,
    };
    let sql = "SELECT first_seq, steps FROM history WHERE task = ?1 ORDER BY first_seq";
    let chunks: Vec<(i64, i64)> = all(transaction, sql, [task], |row| row.try_into())?;
    let mut place = 0_u64;
    for (first_seq, steps) in chunks {
        let start = place;
        place += unsigned(steps);
        if steps == 0 || place <= thinning.middle.start || start >= thinning.middle.end {
            continue;
        }
        // A corrupt chunk is left as it is and does not prevent other saves.
        let Some(entries) = chunk(transaction, task, first_seq)? else {
            continue;
        };
        let delete = "DELETE FROM history WHERE task = ?1 AND first_seq = ?2";
        execute(transaction, delete, params![task, first_seq])?;
        // Once for each save; only new entries need more.
        for part in thinning.keep(&entries, start, 1) {
            insert_chunk(transaction, task, &part)?;
        }
    }
    for part in thinning.keep(fresh, place, times_over(total)) {
        insert_chunk(transaction, task, &part)?;
    }
    let Thinning {
        dropped,
        mark,
        mark_seq,
        ..
    } = thinning;
    let left_out = unsigned(already) + dropped;
    // The mark takes the place of the first entry that was left out.
    if let Some(mut mark) = mark {
        mark.event_id = None;
        mark.what = HistoryEvent::Status {
            status: "running".to_owned(),
            reason: Some(format!(
                "{} between here and the newest were left out to keep the history small",
                text::plural(left_out, "line")
            )),
        };
        insert_chunk(transaction, task, &[&mark])?;
    }
    let steps = signed(total.saturating_sub(dropped));
    execute(
        transaction,
        "UPDATE history_size SET steps = ?2, left_out = ?3, mark_seq = ?4 WHERE task = ?1",
        params![task, steps, signed(left_out), mark_seq],
    )?;
    Ok(())
}

/// The entries of a chunk; `None` if it is not there, or corrupt.
fn chunk(
    transaction: &Transaction<'_>,
    task: &str,
    first_seq: i64,
) -> rusqlite::Result<Option<Vec<HistoryEntry>>> {
    let sql = "SELECT body FROM history WHERE task = ?1 AND first_seq = ?2";
    let entries = first(transaction, sql, params![task, first_seq], |row| {
        Ok(parse(row.get_ref(0)?.as_bytes()?).ok())
    })?;
    Ok(entries.flatten())
}

/// Writes the entries as one chunk, or nothing if there are none.
pub(super) fn insert_chunk(
    transaction: &Transaction<'_>,
    task: &str,
    entries: &[&HistoryEntry],
) -> rusqlite::Result<()> {
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
        return Ok(());
    };
    let steps = entries.iter().filter(|entry| is_step(entry)).count() as u64;
    let (from, to) = (signed(first.seq), signed(last.seq));
    execute(
        transaction,
        "INSERT OR REPLACE INTO history (task, first_seq, last_seq, steps, body) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![task, from, to, signed(steps), json(&entries)?],
    )
    .map(drop)
}
