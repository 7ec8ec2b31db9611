//! Thins out the saved progress of long tasks.

use rusqlite::{Transaction, params};

use crate::{
    domain::{HistoryEntry, HistoryEvent, LogLevel, text},
    store::rows::{all, execute, first, json, parse, signed, unsigned},
};

/// The number of steps and log lines of a task above which the middle of its history is thinned, so that a chatty tool
/// does not fill the disk: with the longest texts that are kept, 160 MB.
pub(super) const STEPS_LIMIT: u64 = 10_000;

/// Steps and log lines kept at the beginning.
pub(super) const STEPS_FIRST: u64 = 1000;

/// Steps and log lines kept at the end.
pub(super) const STEPS_LAST: u64 = 5000;

/// Of those between, one in this many stays each time; of warnings and worse, one in this many goes.
pub(super) const STEPS_RATIO: u64 = 4;

/// Entries that a server can send without limit.
pub(super) fn is_step(entry: &HistoryEntry) -> bool {
    matches!(
        entry.what,
        HistoryEvent::Progress { .. } | HistoryEvent::Log { .. }
    )
}

/// Whether an entry goes when the middle is thinned; `offset` is its place there.
pub(super) fn goes(entry: &HistoryEntry, offset: u64) -> bool {
    let is_loud =
        matches!(entry.what, HistoryEvent::Log { level, .. } if level >= LogLevel::Warning);
    (offset % STEPS_RATIO == STEPS_RATIO - 1) == is_loud
}

/// Removes most steps and log lines from the middle of a history and leaves a mark that says how many.
///
/// Contact and status lines stay, and most warnings. A chunk without steps is not read again, so the work stays in proportion to
/// what was added.
pub(super) fn thin(transaction: &Transaction<'_>, task: &str, total: u64) -> rusqlite::Result<()> {
    let middle = STEPS_FIRST..total.saturating_sub(STEPS_LAST);
    let (already, mut mark_seq): (i64, Option<i64>) = transaction
        .prepare_cached("SELECT left_out, mark_seq FROM history_size WHERE task = ?1")?
        .query_row([task], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut mark: Option<HistoryEntry> = match mark_seq {
        Some(seq) => chunk(transaction, task, seq)?.and_then(|entries| entries.into_iter().next()),
        None => None,
    };
    let sql = "SELECT first_seq, steps FROM history WHERE task = ?1 ORDER BY first_seq";
    let chunks: Vec<(i64, i64)> = all(transaction, sql, [task], |row| row.try_into())?;
    let mut place = 0_u64;
    let mut dropped = 0_u64;
    for (first_seq, steps) in chunks {
        let start = place;
        place += unsigned(steps);
        if steps == 0 || place <= middle.start || start >= middle.end {
            continue;
        }
        // A corrupt chunk is left as it is and does not prevent other saves.
        let Some(entries) = chunk(transaction, task, first_seq)? else {
            continue;
        };
        let delete = "DELETE FROM history WHERE task = ?1 AND first_seq = ?2";
        execute(transaction, delete, params![task, first_seq])?;
        let mut step = start;
        // The entries before and after the mark, so that seq increases from chunk to chunk.
        let mut kept: [Vec<HistoryEntry>; 2] = [Vec::new(), Vec::new()];
        for entry in entries {
            if is_step(&entry) {
                let here = step;
                step += 1;
                if middle.contains(&here) && goes(&entry, here - middle.start) {
                    dropped += 1;
                    if mark.is_none() {
                        mark_seq = Some(signed(entry.seq));
                        mark = Some(entry);
                    }
                    continue;
                }
            }
            let is_behind = mark_seq.is_some_and(|seq| entry.seq > unsigned(seq));
            let [before, behind] = &mut kept;
            if is_behind { behind } else { before }.push(entry);
        }
        for part in &kept {
            insert_chunk(transaction, task, part)?;
        }
    }
    let left_out = unsigned(already) + dropped;
    if let Some(mark) = mark {
        insert_mark(transaction, task, mark, left_out)?;
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

/// Writes the entries as one chunk, or nothing if there are none; returns how many of them are steps.
pub(super) fn insert_chunk(
    transaction: &Transaction<'_>,
    task: &str,
    entries: &[HistoryEntry],
) -> rusqlite::Result<u64> {
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
        return Ok(0);
    };
    let steps = entries.iter().filter(|entry| is_step(entry)).count() as u64;
    let (from, to) = (signed(first.seq), signed(last.seq));
    execute(
        transaction,
        "INSERT OR REPLACE INTO history (task, first_seq, last_seq, steps, body) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![task, from, to, signed(steps), json(&entries)?],
    )?;
    Ok(steps)
}

/// Writes the mark in the place of the first entry that was left out.
fn insert_mark(
    transaction: &Transaction<'_>,
    task: &str,
    mut mark: HistoryEntry,
    left_out: u64,
) -> rusqlite::Result<()> {
    mark.event_id = None;
    mark.what = HistoryEvent::Status {
        status: "running".to_owned(),
        reason: Some(format!(
            "{} between here and the newest were left out to keep the history small",
            text::plural(left_out, "line")
        )),
    };
    insert_chunk(transaction, task, &[mark]).map(drop)
}
