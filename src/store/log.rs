//! SQLite's write-ahead log, read by ourselves.
//!
//! SQLite stops at the first frame whose checksum fails and passes over every commit behind it without a word. That is
//! right for the end that a crash has torn, and hides what a disk has spoiled. The two are told apart by what stands
//! behind the place: a torn end is the last that was written, so a whole commit of the same generation behind it means
//! that something readable is being passed over. Left-overs of an earlier generation carry other salts. What cannot be
//! told from a torn end is a spoiled last commit; and a commit that a failing disk refused after all of it was written
//! is counted, if we are killed before its rows are saved again.
//!
//! The format, all of its numbers big-endian: <https://sqlite.org/fileformat2.html#the_write_ahead_log>.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, BufReader, ErrorKind, Read},
    path::Path,
};

/// What stands before the first frame.
const HEADER: usize = 32;
/// What stands before the page in a frame.
const FRAME_HEADER: usize = 24;
/// The last bit says in which order the words of a checksum are read.
const MAGIC: u32 = 0x377f_0682;

/// What a log holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Log {
    /// The pages of the frames that SQLite reads: those up to the last whole commit before the first bad frame.
    pub(super) pages: BTreeSet<u64>,
    /// Where those frames end, in bytes.
    pub(super) readable: u64,
    /// Commits behind that place which SQLite passes over; 0 in a log that a crash can have left.
    pub(super) passed_over: u64,
}

impl Log {
    /// Reads the log at `path`; none is an empty one.
    ///
    /// `page_size` is the file's, for a log whose own header is spoiled.
    pub(super) fn open(path: &Path, page_size: u64) -> io::Result<Self> {
        match File::open(path) {
            Ok(file) => Self::read(BufReader::with_capacity(1 << 16, file), page_size),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    fn read(mut log: impl Read, page_size: u64) -> io::Result<Self> {
        let mut found = Self::default();
        let mut header = [0; HEADER];
        if !fill(&mut log, &mut header)? {
            return Ok(found);
        }
        let is_big_endian = number(&header, 0) & 1 == 1;
        let mut sum = checksum((0, 0), header.get(..24), is_big_endian);
        let mut is_whole = number(&header, 0) & !1 == MAGIC && sum == pair(&header, 24);
        let mut generation = is_whole.then(|| pair(&header, 16));
        let page_size = match u64::from(number(&header, 8)) {
            own @ 512..=65_536 if own.is_power_of_two() => own,
            _ => page_size,
        };
        let length = FRAME_HEADER + usize::try_from(page_size).unwrap_or_default();
        let mut frame = vec![0; length];
        let mut end = HEADER as u64;
        let mut waiting = Vec::new();
        let mut is_torn_a_commit = false;
        while fill(&mut log, &mut frame)? {
            end += frame.len() as u64;
            let is_commit = number(&frame, 4) != 0;
            let is_of_it = *generation.get_or_insert_with(|| pair(&frame, 8)) == pair(&frame, 8);
            if !is_whole {
                found.passed_over += u64::from(is_of_it && is_commit);
                continue;
            }
            let begun = checksum(sum, frame.get(..8), is_big_endian);
            sum = checksum(begun, frame.get(FRAME_HEADER..), is_big_endian);
            is_whole = is_of_it && sum == pair(&frame, 16);
            if !is_whole {
                is_torn_a_commit = is_of_it && is_commit;
                continue;
            }
            waiting.push(u64::from(number(&frame, 0)));
            if is_commit {
                found.pages.extend(waiting.drain(..));
                found.readable = end;
            }
        }
        if found.passed_over > 0 {
            found.passed_over += u64::from(is_torn_a_commit);
        }
        Ok(found)
    }
}

/// Fills the buffer; not if the log ends before.
fn fill(log: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The number that stands there.
fn number(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    u32::from_be_bytes(four.unwrap_or_default())
}

/// The two numbers that stand there.
fn pair(bytes: &[u8], at: usize) -> (u32, u32) {
    (number(bytes, at), number(bytes, at + 4))
}

/// Goes on with the running checksum over `bytes`.
fn checksum(begun: (u32, u32), bytes: Option<&[u8]>, is_big_endian: bool) -> (u32, u32) {
    let word = if is_big_endian {
        u32::from_be_bytes
    } else {
        u32::from_le_bytes
    };
    let (words, _) = bytes.unwrap_or_default().as_chunks::<8>();
    words
        .iter()
        .fold(begun, |(first, second), &[a, b, c, d, e, f, g, h]| {
            let first = first.wrapping_add(word([a, b, c, d])).wrapping_add(second);
            (
                first,
                second.wrapping_add(word([e, f, g, h])).wrapping_add(first),
            )
        })
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    const PAGE: usize = 512;
    const FRAME: usize = FRAME_HEADER + PAGE;

    /// The log of a small file with short pages, to which so many commits went, of some pages each.
    struct Made {
        dir: tempfile::TempDir,
        writer: Connection,
    }

    impl Made {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let writer = Connection::open(dir.path().join("made.db")).unwrap();
            writer
                .execute_batch(
                    "PRAGMA page_size = 512; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; \
                     CREATE TABLE t (b BLOB); PRAGMA wal_checkpoint(TRUNCATE);",
                )
                .unwrap();
            Self { dir, writer }
        }

        fn commit(&self, times: usize) {
            for _ in 0..times {
                let sql = "INSERT INTO t VALUES (randomblob(900))";
                self.writer.execute(sql, []).unwrap();
            }
        }

        /// All is in the file then, and the next commit begins the log anew over what stands there.
        fn restart(&self) {
            let sql = "PRAGMA wal_checkpoint(RESTART)";
            self.writer.query_row(sql, [], |_| Ok(())).unwrap();
        }

        fn bytes(&self) -> Vec<u8> {
            std::fs::read(self.dir.path().join("made.db-wal")).unwrap()
        }
    }

    fn read(bytes: &[u8]) -> Log {
        Log::read(bytes, PAGE as u64).unwrap()
    }

    /// The frames' numbers, from 0, with which a commit ends.
    fn commits(bytes: &[u8]) -> Vec<usize> {
        let frames = bytes[HEADER..].chunks_exact(FRAME);
        let ends = frames
            .enumerate()
            .filter(|(_, frame)| number(frame, 4) != 0);
        ends.map(|(at, _)| at).collect()
    }

    fn end_of(frame: usize) -> usize {
        HEADER + (frame + 1) * FRAME
    }

    #[test]
    fn a_log_cut_at_any_length_is_an_end_torn_by_a_crash() {
        let made = Made::new();
        made.commit(4);
        let bytes = made.bytes();
        let commits = commits(&bytes);
        assert_eq!(commits.len(), 4);
        for length in 0..=bytes.len() {
            let log = read(&bytes[..length]);
            let ends = commits.iter().map(|frame| end_of(*frame));
            let readable = ends.filter(|end| *end <= length).max().unwrap_or(0);
            assert_eq!(log.readable, readable as u64, "{length}");
            assert_eq!(log.pages.is_empty(), readable == 0, "{length}");
            assert_eq!(log.passed_over, 0, "{length}");
        }
    }

    #[test]
    fn ignores_leftovers_of_an_earlier_generation() {
        let made = Made::new();
        made.commit(6);
        let earlier = made.bytes();
        for commits in 1..4 {
            made.restart();
            made.commit(commits);
            let bytes = made.bytes();
            assert_eq!(bytes.len(), earlier.len(), "nothing is left of the earlier");
            let log = read(&bytes);
            assert!(log.readable < bytes.len() as u64);
            assert_eq!(log.passed_over, 0);
            // The process was killed at any byte while it wrote the newest over the earlier.
            for torn in (0..usize::try_from(log.readable).unwrap()).step_by(7) {
                let mut bytes = bytes.clone();
                let from = torn.max(HEADER);
                bytes[from..].copy_from_slice(&earlier[from..]);
                assert_eq!(read(&bytes).passed_over, 0, "{commits} torn at {torn}");
            }
        }
    }

    #[test]
    fn reports_a_bad_byte_before_a_later_commit_as_a_loss() {
        let made = Made::new();
        made.commit(4);
        let bytes = made.bytes();
        let commits = commits(&bytes);
        for at in 0..bytes.len() {
            let mut spoiled = bytes.clone();
            spoiled[at] ^= 1;
            let log = read(&spoiled);
            let whole: Vec<usize> = commits.iter().map(|it| end_of(*it)).collect();
            let readable = whole.iter().filter(|end| at >= HEADER && **end <= at);
            let readable = readable.max().copied().unwrap_or(0);
            assert_eq!(log.readable, readable as u64, "{at}");
            let behind = whole.iter().filter(|end| **end - FRAME > at).count();
            assert_eq!(log.passed_over > 0, behind > 0, "{at}: {log:?}");
            assert!(log.passed_over >= behind as u64, "{at}: {log:?}");
            // One more where the byte makes a commit of what was none.
            assert!(log.passed_over <= 5, "{at}: {log:?}");
        }
    }

    #[test]
    fn a_large_change_that_was_taken_back_leaves_no_commit() {
        let made = Made::new();
        made.commit(1);
        made.writer
            .execute_batch("PRAGMA cache_size = 2; BEGIN")
            .unwrap();
        made.commit(20);
        made.writer.execute_batch("ROLLBACK").unwrap();
        let before = made.bytes().len();
        made.commit(1);
        let bytes = made.bytes();
        assert_eq!(bytes.len(), before, "nothing of it had gone to the log");
        let log = read(&bytes);
        assert!(log.readable < bytes.len() as u64);
        assert_eq!(log.passed_over, 0);
    }

    #[test]
    fn noise_and_zeros_hold_no_commit() {
        let mut dice = fastrand::Rng::with_seed(3);
        for length in [0, 1, HEADER, 5 * FRAME] {
            assert_eq!(read(&vec![0; length]), Log::default());
            let noise: Vec<u8> = (0..length).map(|_| dice.u8(..)).collect();
            assert_eq!(read(&noise).readable, 0);
        }
        assert_eq!(
            Log::open(Path::new("/nowhere/at.all"), 4096).unwrap(),
            Log::default()
        );
    }
}
