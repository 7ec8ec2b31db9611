//! The traces: next to the session file, one file of JSON lines per server.
//!
//! Bounded: a full file becomes the older one and replaces the previous older one. Readers skip a line that a crash has
//! truncated or that another version of longhaul wrote.

use std::{
    fs::{self, File},
    io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::{
    Paths, StoreError, StoreResult,
    paths::{check_file, open_own_file, own_directory},
};
use crate::domain::{ServerName, TrafficEntry};

/// The size at which a file is full.
const FILE_BYTES: u64 = 8 << 20;
/// The longest line that is read; those that we write are less than half as long.
const LINE_BYTES: usize = 1 << 20;

/// Appends to the trace of one server.
#[derive(Debug)]
pub struct TraceWriter {
    path: PathBuf,
    older: PathBuf,
    file: File,
    bytes: u64,
    limit: u64,
    /// The number that this process's exchanges start from.
    exchanges: u64,
}

impl TraceWriter {
    /// Whether the file still exists; a deleted file has no readers.
    pub fn is_there(&self) -> bool {
        self.file.metadata().is_ok_and(|found| found.nlink() > 0)
    }

    /// Opens or creates the trace with mode 0600.
    ///
    /// # Errors
    /// [`StoreError::Refused`] and [`StoreError::CannotOpen`].
    pub fn open(paths: &Paths, server: &ServerName) -> StoreResult<Self> {
        Self::limited(paths, server, FILE_BYTES)
    }

    fn limited(paths: &Paths, server: &ServerName, limit: u64) -> StoreResult<Self> {
        own_directory(&paths.trace_dir())?;
        let [older, path] = paths.trace(server);
        let reader = TraceReader::of_servers(paths, [server]);
        let mut last = reader.newest(1, 2 * LINE_BYTES, |_| true)?;
        let (file, bytes) = begin(&path)?;
        Ok(Self {
            path,
            older,
            file,
            bytes,
            limit,
            exchanges: last.pop().map_or(0, |entry| entry.exchange),
        })
    }

    /// Appends a message.
    ///
    /// # Errors
    /// [`StoreError::CannotWrite`], and as [`Self::open`] for a new file.
    pub fn append(&mut self, mut entry: TrafficEntry) -> StoreResult<()> {
        entry.exchange = entry.exchange.saturating_add(self.exchanges);
        let mut line = serde_json::to_vec(&entry).unwrap_or_default();
        line.push(b'\n');
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if self.bytes > 0 && self.bytes.saturating_add(length) > self.limit {
            fs::rename(&self.path, &self.older).map_err(StoreError::write_io(&self.older))?;
            (self.file, self.bytes) = begin(&self.path)?;
        }
        self.file
            .write_all(&line)
            .map_err(StoreError::write_io(&self.path))?;
        self.bytes += length;
        Ok(())
    }
}

/// Opens a file for appending and ends a line that a crash has truncated.
fn begin(path: &Path) -> StoreResult<(File, u64)> {
    let failed = StoreError::open_io(path);
    let mut file = open_own_file(path)?;
    let mut bytes = file.seek(SeekFrom::End(0)).map_err(&failed)?;
    if bytes > 0 {
        let mut last = [0];
        let read = file
            .seek(SeekFrom::End(-1))
            .and_then(|_| file.read_exact(&mut last));
        read.map_err(&failed)?;
        if last != *b"\n" {
            file.write_all(b"\n").map_err(&failed)?;
            bytes += 1;
        }
    }
    Ok((file, bytes))
}

/// Reads traces, continuing where it stopped.
#[derive(Debug)]
pub struct TraceReader {
    records: Vec<Record>,
}

/// The trace of one server, with the read position.
#[derive(Debug)]
struct Record {
    older: PathBuf,
    path: PathBuf,
    /// The file opened last, with its inode.
    file: Option<(File, u64)>,
    /// The start of an incomplete line.
    begun: Vec<u8>,
}

impl TraceReader {
    /// The traces of these servers; opens nothing yet.
    pub fn of_servers<'n>(
        paths: &Paths,
        servers: impl IntoIterator<Item = &'n ServerName>,
    ) -> Self {
        let files = servers.into_iter().map(|server| paths.trace(server));
        Self {
            records: files.map(Record::new).collect(),
        }
    }

    /// All traces of a session.
    ///
    /// # Errors
    /// [`StoreError::CannotOpen`].
    pub fn of_all(paths: &Paths) -> StoreResult<Self> {
        let mut all = Self::of_servers(paths, []);
        all.take_in(paths)?;
        Ok(all)
    }

    /// Adds the traces that were started since.
    ///
    /// # Errors
    /// [`StoreError::CannotOpen`].
    pub fn take_in(&mut self, paths: &Paths) -> StoreResult<()> {
        let dir = paths.trace_dir();
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(StoreError::open_io(&dir)(error)),
        };
        let record = |path: PathBuf| {
            let name = path.file_name()?.to_str()?.strip_suffix(".jsonl")?;
            let is_older = name.ends_with(".1");
            (!is_older).then(|| Record::new([dir.join(format!("{name}.1.jsonl")), path.clone()]))
        };
        let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        found.retain(|path| !self.records.iter().any(|known| known.path == *path));
        found.sort();
        self.records.extend(found.into_iter().filter_map(record));
        Ok(())
    }

    /// Whether there is any trace.
    pub fn has_any(&self) -> bool {
        self.records.iter().any(|record| record.path.exists())
    }

    /// The messages recorded since the last call, in order.
    ///
    /// # Errors
    /// [`StoreError::Refused`] and [`StoreError::CannotOpen`].
    pub fn read(&mut self) -> StoreResult<Vec<TrafficEntry>> {
        let mut entries = Vec::new();
        for record in &mut self.records {
            record.read(&mut entries)?;
        }
        if self.records.len() > 1 {
            entries.sort_by_key(|entry| entry.at);
        }
        Ok(entries)
    }

    /// The newest matching messages among the last `bytes` of each trace, in order.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn newest(
        &self,
        count: usize,
        bytes: usize,
        is_wanted: impl Fn(&TrafficEntry) -> bool,
    ) -> StoreResult<Vec<TrafficEntry>> {
        let mut newest = Vec::new();
        for record in &self.records {
            let mut left = u64::try_from(bytes).unwrap_or(u64::MAX);
            let mut ends = Vec::new();
            for path in [&record.path, &record.older] {
                let end = end_of(path, left)?;
                left = left.saturating_sub(u64::try_from(end.len()).unwrap_or(u64::MAX));
                ends.push(end);
            }
            for end in ends.iter().rev() {
                parse(end, &mut newest);
            }
        }
        newest.retain(is_wanted);
        newest.sort_by_key(|entry: &TrafficEntry| entry.at);
        let surplus = newest.len().saturating_sub(count);
        newest.drain(..surplus);
        Ok(newest)
    }
}

/// The last bytes of a file, from the start of a line; empty without a file.
fn end_of(path: &Path, bytes: u64) -> StoreResult<Vec<u8>> {
    let Some((mut file, _)) = open(path)? else {
        return Ok(Vec::new());
    };
    let read = move || -> std::io::Result<Vec<u8>> {
        let from = file.metadata()?.len().saturating_sub(bytes);
        file.seek(SeekFrom::Start(from))?;
        let mut end = Vec::new();
        file.take(bytes).read_to_end(&mut end)?;
        if from > 0 {
            let first = memchr::memchr(b'\n', &end).map_or(end.len(), |at| at + 1);
            end.drain(..first);
        }
        Ok(end)
    };
    read().map_err(StoreError::open_io(path))
}

/// Opens a file for reading and returns its inode; `None` without a file.
fn open(path: &Path) -> StoreResult<Option<(File, u64)>> {
    let failed = StoreError::open_io(path);
    if check_file(path)?.is_none() {
        return Ok(None);
    }
    match File::open(path) {
        Ok(file) => {
            let inode = file.metadata().map_err(&failed)?.ino();
            Ok(Some((file, inode)))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn parse(lines: &[u8], entries: &mut Vec<TrafficEntry>) {
    for line in lines.split(|byte| *byte == b'\n') {
        entries.extend(serde_json::from_slice::<TrafficEntry>(line).ok());
    }
}

impl Record {
    fn new([older, path]: [PathBuf; 2]) -> Self {
        Self {
            older,
            path,
            file: None,
            begun: Vec::new(),
        }
    }

    fn read(&mut self, entries: &mut Vec<TrafficEntry>) -> StoreResult<()> {
        let is_first = self.file.is_none();
        // The rest of the file that was read last, which may be the older one by now.
        self.read_on(entries)?;
        let present = open(&self.path)?;
        let inode = |file: &Option<(File, u64)>| file.as_ref().map(|(_, inode)| *inode);
        if present.is_none() || inode(&present) == inode(&self.file) {
            return Ok(());
        }
        if is_first {
            self.file = open(&self.older)?;
            self.read_on(entries)?;
        }
        self.begun.clear();
        self.file = present;
        self.read_on(entries)
    }

    fn read_on(&mut self, entries: &mut Vec<TrafficEntry>) -> StoreResult<()> {
        let Some((file, _)) = &mut self.file else {
            return Ok(());
        };
        file.read_to_end(&mut self.begun)
            .map_err(StoreError::open_io(&self.path))?;
        let whole = memchr::memrchr(b'\n', &self.begun).map_or(0, |at| at + 1);
        let rest = self.begun.split_off(whole);
        parse(&self.begun, entries);
        self.begun = rest;
        if self.begun.len() > LINE_BYTES {
            self.begun.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Direction, TrafficKind, Wall};

    fn entry(exchange: u64, data: &str) -> TrafficEntry {
        TrafficEntry {
            at: Wall(i64::try_from(exchange).unwrap()),
            dir: Direction::Received,
            exchange,
            server: ServerName::new("lab"),
            task: None,
            what: TrafficKind::Line {
                data: data.to_owned(),
                left_out: 0,
            },
        }
    }

    fn paths() -> (tempfile::TempDir, Paths) {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::resolve(Some(dir.path().to_owned()), "default").unwrap();
        (dir, paths)
    }

    fn numbers(entries: &[TrafficEntry]) -> Vec<u64> {
        entries.iter().map(|entry| entry.exchange).collect()
    }

    #[test]
    fn rotates_a_full_file_without_losing_records_for_readers() {
        let (_dir, paths) = paths();
        let lab = ServerName::new("lab");
        let mut writer = TraceWriter::limited(&paths, &lab, 1000).unwrap();
        let mut reader = TraceReader::of_servers(&paths, [&lab]);
        assert_eq!(reader.read().unwrap(), []);
        let mut seen = Vec::new();
        for number in 1..=40 {
            writer.append(entry(number, &"x".repeat(100))).unwrap();
            seen.extend(reader.read().unwrap());
        }
        assert_eq!(numbers(&seen), (1..=40).collect::<Vec<_>>());
        let sizes = paths
            .trace(&lab)
            .map(|path| fs::metadata(path).unwrap().len());
        assert!(sizes.iter().all(|size| *size <= 1000), "{sizes:?}");
        let kept = TraceReader::of_servers(&paths, [&lab]).read().unwrap();
        assert!(kept.len() > 5 && kept.len() < 20, "{}", kept.len());
        assert_eq!(kept.last().map(|it| it.exchange), Some(40));
        let reader = TraceReader::of_servers(&paths, [&lab]);
        assert_eq!(
            numbers(&reader.newest(3, 1 << 20, |_| true).unwrap()),
            [38, 39, 40]
        );
        assert_eq!(
            numbers(&reader.newest(99, 400, |_| true).unwrap()),
            [39, 40]
        );
    }

    #[test]
    fn a_torn_line_is_passed_over_and_exchanges_are_counted_on() {
        let (_dir, paths) = paths();
        let lab = ServerName::new("lab");
        let mut writer = TraceWriter::open(&paths, &lab).unwrap();
        writer.append(entry(1, "a")).unwrap();
        writer.append(entry(2, "b")).unwrap();
        let [_, path] = paths.trace(&lab);
        let mode = fs::metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let torn = fs::metadata(&path).unwrap().len() - 3;
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(torn)
            .unwrap();
        let mut writer = TraceWriter::open(&paths, &lab).unwrap();
        writer.append(entry(1, "c")).unwrap();
        let kept = TraceReader::of_servers(&paths, [&lab]).read().unwrap();
        assert_eq!(numbers(&kept), [1, 2]);
        assert_eq!(kept[1].what.data().0, "c");
    }

    #[test]
    fn keeps_the_trace_in_its_directory_for_any_server_name() {
        let (_dir, paths) = paths();
        let mut files = Vec::new();
        for name in [
            "lab",
            "LAB",
            "../../x",
            "a/b",
            "a_b",
            ".",
            "",
            "é\n",
            &"x".repeat(500),
        ] {
            let server = ServerName::new(name);
            TraceWriter::open(&paths, &server).unwrap();
            let [_, path] = paths.trace(&server);
            assert_eq!(path.parent(), Some(paths.trace_dir().as_path()), "{name}");
            assert!(path.is_file(), "{name}");
            files.push(path);
        }
        let count = files.len();
        files.sort();
        files.dedup();
        assert_eq!(files.len(), count, "no two share one: {files:?}");
    }
}
