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
const STEPS_FIRST: u64 = 1000;

/// Steps and log lines kept at the end.
const STEPS_LAST: u64 = 5000;

/// Of those between, one in this many stays each time; of warnings and worse, one in this many goes.
const STEPS_RATIO: u64 = 4;

/// The most entries of one chunk: only whole ones are thinned.
const CHUNK: usize = 250;

/// Entries that a server can send without limit.
pub(super) fn is_step(entry: &HistoryEntry) -> bool {
    matches!(
        entry.what,
        HistoryEvent::Progress(_) | HistoryEvent::Log { .. }
    )
}

/// Counts the entries of the middle, to choose which of them go.
#[derive(Default)]
struct Chooser {
    quiet: u64,
    loud: u64,
}

impl Chooser {
    fn goes(&mut self, entry: &HistoryEntry) -> bool {
        if !is_step(entry) {
            return false;
        }
        let is_loud =
            matches!(entry.what, HistoryEvent::Log { level, .. } if level >= LogLevel::Warning);
        let count = if is_loud {
            &mut self.loud
        } else {
            &mut self.quiet
        };
        *count += 1;
        (*count % STEPS_RATIO == 0) == is_loud
    }
}

/// What stands for everything that was left out.
fn mark(left_out: u64) -> HistoryEvent {
    HistoryEvent::Status {
        status: "running".to_owned(),
        reason: Some(format!(
            "{} between here and the newest were left out to keep the history small",
            text::plural(left_out, "line")
        )),
    }
}

/// Removes most steps and log lines from the middle of a history that has `total` of them until it is within its limit,
/// and leaves a mark that says how many.
///
/// Contact and status lines stay, and most warnings. A pass leaves about a quarter of the middle, so the work stays in
/// proportion to what was added.
pub(super) fn thin(
    transaction: &Transaction<'_>,
    task: &str,
    mut total: u64,
) -> rusqlite::Result<()> {
    let (already, mut mark_seq): (i64, Option<i64>) = transaction
        .prepare_cached("SELECT left_out, mark_seq FROM history_size WHERE task = ?1")?
        .query_row([task], |row| row.try_into())?;
    let mut left_out = unsigned(already);
    while total > STEPS_LIMIT {
        let dropped = thin_once(transaction, task, total, &mut mark_seq)?;
        if dropped == 0 {
            // Corrupt chunks stay as they are and don't prevent other saves.
            break;
        }
        total = total.saturating_sub(dropped);
        left_out += dropped;
    }
    if let Some(seq) = mark_seq
        && let Some(mut entries) = chunk(transaction, task, seq)?
        && let Some(it) = entries.iter_mut().find(|it| signed(it.seq) == seq)
    {
        it.what = mark(left_out);
        insert_chunk(transaction, task, &entries)?;
    }
    execute(
        transaction,
        "UPDATE history_size SET steps = ?2, left_out = ?3, mark_seq = ?4 WHERE task = ?1",
        params![task, signed(total), signed(left_out), mark_seq],
    )
    .map(drop)
}

/// Thins the chunks that lie in the middle. The first entry that goes becomes the mark. Returns how many went.
fn thin_once(
    transaction: &Transaction<'_>,
    task: &str,
    total: u64,
    mark_seq: &mut Option<i64>,
) -> rusqlite::Result<u64> {
    let sql = "SELECT first_seq, steps FROM history WHERE task = ?1 ORDER BY first_seq";
    let chunks: Vec<(i64, i64)> = all(transaction, sql, [task], |row| row.try_into())?;
    let (mut place, mut dropped, mut chooser) = (0_u64, 0, Chooser::default());
    for (first_seq, steps) in chunks {
        let start = place;
        place += unsigned(steps);
        if steps == 0 || start < STEPS_FIRST || place > total.saturating_sub(STEPS_LAST) {
            continue;
        }
        let Some(mut entries) = chunk(transaction, task, first_seq)? else {
            continue;
        };
        let before = dropped;
        entries.retain_mut(|entry| {
            let is_gone = chooser.goes(entry);
            dropped += u64::from(is_gone);
            let is_mark = is_gone && mark_seq.is_none();
            if is_mark {
                *mark_seq = Some(signed(entry.seq));
                (entry.event_id, entry.what) = (None, mark(0));
            }
            is_mark || !is_gone
        });
        if dropped == before {
            continue;
        }
        let delete = "DELETE FROM history WHERE task = ?1 AND first_seq = ?2";
        execute(transaction, delete, params![task, first_seq])?;
        insert_chunk(transaction, task, &entries)?;
    }
    Ok(dropped)
}

/// The entries of the chunk that an entry is in; `None` if it is corrupt.
fn chunk(
    transaction: &Transaction<'_>,
    task: &str,
    seq: i64,
) -> rusqlite::Result<Option<Vec<HistoryEntry>>> {
    let sql = "SELECT body FROM history WHERE task = ?1 AND first_seq <= ?2 \
               ORDER BY first_seq DESC LIMIT 1";
    let entries = first(transaction, sql, params![task, seq], |row| {
        Ok(parse(row.get_ref(0)?.as_bytes()?).ok())
    })?;
    Ok(entries.flatten())
}

/// Writes entries that a history does not have.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    task: &str,
    entries: &[HistoryEntry],
) -> rusqlite::Result<()> {
    let mut chunks = entries.chunks(CHUNK);
    chunks.try_for_each(|chunk| insert_chunk(transaction, task, chunk))
}

/// Writes the entries as one chunk, or nothing if there are none.
fn insert_chunk(
    transaction: &Transaction<'_>,
    task: &str,
    entries: &[HistoryEntry],
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
