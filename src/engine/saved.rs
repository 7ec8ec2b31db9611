//! Reads the session file for a screen, on the machine where the file is.

use crate::{
    domain::{ContentBlock, ContentError, Saved, SavedRead, TaskId, base64, content_element},
    store::{Paths, Reader, StoreError, TraceReader},
};

/// The most history entries of a task that a screen takes at once; older ones are counted.
const HISTORY_AT_ONCE: usize = 2000;

/// The most bytes of text in these entries: as JSON, each can need six, and a line to a client holds 64 MiB.
const HISTORY_BYTES: usize = 8 * 1024 * 1024;

/// The most recorded messages that a screen takes at once, from the last [`TRAFFIC_BYTES`] of the record.
const TRAFFIC_AT_ONCE: usize = 200;

const TRAFFIC_BYTES: usize = 512 * 1024;

/// Why something saved cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The session file or the record cannot be read.
    #[error("could not {0}")]
    Store(#[from] StoreError),
    /// The part of the result is not there any more.
    #[error("it no longer exists")]
    NoPart,
    /// The part cannot be decoded.
    #[error(transparent)]
    Part(#[from] ContentError),
}

/// Reads what a screen asks for.
pub fn read_saved(paths: &Paths, read: &SavedRead) -> Result<Saved, ReadError> {
    Ok(match read {
        SavedRead::History { task, after_seq } => history(paths, task, *after_seq)?,
        SavedRead::Milestones(tasks) => {
            let mut reader = Reader::open(paths)?;
            let mut all = Vec::new();
            for (task, after_seq) in tasks {
                all.push((task.clone(), reader.milestones(task, *after_seq)?));
            }
            Saved::Milestones(all)
        }
        SavedRead::Result(task) => Saved::Result(Reader::open(paths)?.result(task)?),
        SavedRead::Traffic { task, server } => {
            let reader = TraceReader::of_servers(paths, [server]);
            let is_ours = |entry: &crate::domain::TrafficEntry| {
                entry.task.as_ref().is_none_or(|of| of == task)
            };
            Saved::Traffic(reader.newest(TRAFFIC_AT_ONCE, TRAFFIC_BYTES, is_ours)?)
        }
        SavedRead::Part { task, part } => part_of(paths, task, *part)?,
    })
}

fn history(paths: &Paths, task: &TaskId, after_seq: u64) -> Result<Saved, StoreError> {
    let mut reader = Reader::open(paths)?;
    // Usually only a few are new.
    let mut entries = reader.history(task, after_seq, HISTORY_AT_ONCE)?;
    if entries.len() >= HISTORY_AT_ONCE {
        entries = reader.history_tail(task, HISTORY_AT_ONCE)?;
    }
    entries.retain(|entry| entry.seq > after_seq);
    let mut bytes = 0;
    let newest = entries.iter().rev().take_while(|entry| {
        bytes += entry.weight();
        bytes <= HISTORY_BYTES
    });
    let left_out = entries.len() - newest.count();
    entries.drain(..left_out);
    let dropped = entries
        .first()
        .map_or(0, |first| first.seq.saturating_sub(after_seq + 1));
    Ok(Saved::History { entries, dropped })
}

fn part_of(paths: &Paths, task: &TaskId, part: usize) -> Result<Saved, ReadError> {
    let result = Reader::open(paths)?.result(task)?;
    let block = result
        .as_deref()
        .and_then(|json| content_element(json, part))
        .ok_or(ReadError::NoPart)?;
    Ok(Saved::Part(base64(
        &ContentBlock::parse(&block).contents()?,
    )))
}
