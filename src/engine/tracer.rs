//! The thread that writes the traces of the servers for which tracing is on.
//!
//! Must not delay its callers: messages that do not fit are counted, and the count is written instead. If the disk is
//! full, that is reported once, tracing stops, and the calls continue.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, TryRecvError},
    },
    thread::JoinHandle,
};

use super::{clock::Clock, snapshots::Snapshots};
use crate::{
    domain::{
        ByteShare, Direction, NoticeLevel, ServerName, SharedByteCount, TaskId, TrafficEntry,
        TrafficKind, Wall, text,
    },
    store::{Paths, StoreError, TraceWriter},
    transport::{RecordingSwitch, TrafficRecorder, TrafficWriter},
};

/// The maximum bytes of waiting messages, which also bounds their number.
const WAITING_BYTES: usize = 8 << 20;
/// The approximate overhead of a message.
const HEAD_BYTES: usize = 512;

/// A handle to the thread.
pub(super) struct Tracer {
    notes: Notes,
    waiting: SharedByteCount,
    /// The thread starts with the first trace.
    thread: Option<JoinHandle<()>>,
    paths: Paths,
    snapshots: Arc<Snapshots>,
    clock: Clock,
}

/// The thread could not be started.
#[derive(Debug, thiserror::Error)]
#[error("could not start a thread: {0}")]
pub(super) struct TracerError(#[from] std::io::Error);

/// The thread's queue, once it has started.
type Notes = Arc<OnceLock<mpsc::Sender<Note>>>;

/// A message to the thread.
enum Note {
    Entry {
        of: Arc<Source>,
        entry: Box<TrafficEntry>,
        /// Subtracted from the sum once it is written.
        _part: ByteShare,
    },
    Close,
}

/// The source of one server's messages.
struct Source {
    server: ServerName,
    switch: RecordingSwitch,
    notes: Notes,
    waiting: SharedByteCount,
    /// How many messages were dropped since the last one that fit.
    lost: AtomicU64,
}

impl Source {
    /// Says in the trace how many messages were dropped.
    fn lost_entry(&self, at: Wall, exchange: u64, count: u64) -> TrafficEntry {
        TrafficEntry {
            at,
            dir: Direction::Received,
            exchange,
            server: self.server.clone(),
            task: None,
            what: TrafficKind::Lost { count },
        }
    }
}

struct ServerTraffic(Arc<Source>);

impl TrafficWriter for ServerTraffic {
    fn take(&self, entry: TrafficEntry) {
        let source = &self.0;
        let mut part = source.waiting.share();
        part.set(entry.what.data().0.len() + HEAD_BYTES);
        let note = Note::Entry {
            of: Arc::clone(source),
            entry: Box::new(entry),
            _part: part,
        };
        let has_room = source.waiting.sum() <= WAITING_BYTES;
        let notes = source.notes.get().filter(|_| has_room);
        if notes.is_none_or(|notes| notes.send(note).is_err()) {
            source.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Tracer {
    /// Without traces and without a thread.
    pub(super) fn new(paths: &Paths, snapshots: &Arc<Snapshots>, clock: Clock) -> Self {
        Self {
            notes: Notes::default(),
            waiting: SharedByteCount::default(),
            thread: None,
            paths: paths.clone(),
            snapshots: Arc::clone(snapshots),
            clock,
        }
    }

    /// The tap of a server, initially off.
    pub(super) fn tap(&self, server: &ServerName) -> TrafficRecorder {
        let switch = RecordingSwitch::default();
        let source = Source {
            server: server.clone(),
            switch: switch.clone(),
            notes: Arc::clone(&self.notes),
            waiting: self.waiting.clone(),
            lost: AtomicU64::new(0),
        };
        let clock = self.clock;
        let desk = Arc::new(ServerTraffic(Arc::new(source)));
        TrafficRecorder::new(server.clone(), switch, desk, move || clock.now().wall)
    }

    /// Switches a tap on while these calls are running.
    pub(super) fn record(
        &mut self,
        tap: &TrafficRecorder,
        calls: impl IntoIterator<Item = (String, TaskId)>,
    ) -> Result<(), TracerError> {
        if self.thread.is_none() {
            let (notes, todo) = mpsc::channel();
            let writer = self.writer();
            let thread = std::thread::Builder::new()
                .name("trace".to_owned())
                .spawn(move || writer.run(&todo));
            self.thread = Some(thread?);
            // It cannot be set yet: there was no thread.
            let _ = self.notes.set(notes);
        }
        tap.add_calls(calls);
        tap.switch().set(true);
        Ok(())
    }

    fn writer(&self) -> Writing {
        Writing {
            paths: self.paths.clone(),
            snapshots: Arc::clone(&self.snapshots),
            clock: self.clock,
            open: BTreeMap::new(),
        }
    }

    /// Waits until everything queued is written.
    pub(super) fn close(self) {
        if let Some(thread) = self.thread {
            if let Some(notes) = self.notes.get() {
                // Only this message ends the thread.
                let _ = notes.send(Note::Close);
            }
            // The panic hook has reported a panic there.
            let _ = thread.join();
        }
    }
}

struct Writing {
    paths: Paths,
    snapshots: Arc<Snapshots>,
    clock: Clock,
    open: BTreeMap<ServerName, (Arc<Source>, TraceWriter)>,
}

impl Writing {
    fn run(mut self, todo: &mpsc::Receiver<Note>) {
        loop {
            let note = match todo.try_recv() {
                Err(TryRecvError::Empty) => {
                    self.tell_lost();
                    todo.recv().ok()
                }
                note => note.ok(),
            };
            let Some(Note::Entry { of, entry, _part }) = note else {
                return self.tell_lost();
            };
            self.write(&of, *entry);
        }
    }

    fn write(&mut self, of: &Arc<Source>, entry: TrafficEntry) {
        // Tracing may have been stopped while this waited.
        if !of.switch.is_on() && !self.open.contains_key(&of.server) {
            return;
        }
        let lost = of.lost.swap(0, Ordering::Relaxed);
        let written = self.append(of, lost, entry);
        if let Err(error) = written {
            self.open.remove(&of.server);
            // One notice each time tracing is switched on.
            if of.switch.set(false) {
                self.complain(&of.server, &error);
            }
        }
    }

    fn append(
        &mut self,
        of: &Arc<Source>,
        lost: u64,
        entry: TrafficEntry,
    ) -> Result<(), StoreError> {
        let is_open = self.open.get(&of.server);
        if !is_open.is_some_and(|(_, writer)| writer.is_there()) {
            let writer = TraceWriter::open(&self.paths, &of.server)?;
            let source = Arc::clone(of);
            self.open.insert(of.server.clone(), (source, writer));
        }
        let Some((_, writer)) = self.open.get_mut(&of.server) else {
            return Ok(());
        };
        if lost > 0 {
            writer.append(of.lost_entry(entry.at, entry.exchange, lost))?;
        }
        writer.append(entry)
    }

    /// Writes the count of dropped messages at the end.
    fn tell_lost(&mut self) {
        let at = self.clock.now().wall;
        for (source, writer) in self.open.values_mut() {
            let count = source.lost.swap(0, Ordering::Relaxed);
            if count > 0 {
                // An error here recurs with the next message, which reports it.
                let _ = writer.append(source.lost_entry(at, 0, count));
            }
        }
    }

    fn complain(&self, server: &ServerName, error: &StoreError) {
        let why = match error {
            StoreError::CannotWrite { path, why } => format!("write {}: {why}", path.display()),
            other => other.to_string(),
        };
        let words =
            format!("traffic with {server} is no longer recorded: could not {why}; calls continue");
        self.snapshots.notice(
            self.clock.now().wall,
            NoticeLevel::Warning,
            text::clean_line(&words).into_owned(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::TraceReader;

    fn entry(of: &ServerName, number: u64, bytes: usize) -> TrafficEntry {
        TrafficEntry {
            at: Wall(7),
            dir: Direction::Received,
            exchange: number,
            server: of.clone(),
            task: None,
            what: TrafficKind::Line {
                data: "x".repeat(bytes),
                left_out: 0,
            },
        }
    }

    #[test]
    fn counts_dropped_records_and_writes_the_count() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::resolve(Some(dir.path().to_owned()), "default").unwrap();
        let mut tracer = Tracer::new(&paths, &Arc::default(), Clock::start());
        let lab = ServerName::new("lab");
        let source = |notes| Source {
            server: lab.clone(),
            switch: RecordingSwitch::default(),
            notes,
            waiting: tracer.waiting.clone(),
            lost: AtomicU64::new(0),
        };
        let desk = ServerTraffic(Arc::new(source(tracer.notes.clone())));
        // Nobody writes yet.
        let (notes, todo) = mpsc::channel();
        tracer.notes.set(notes).unwrap();
        for number in 0..20 {
            desk.take(entry(&lab, number, 1 << 20));
        }
        let kept = u64::try_from(WAITING_BYTES / ((1 << 20) + HEAD_BYTES)).unwrap();
        assert_eq!(desk.0.lost.load(Ordering::Relaxed), 20 - kept);
        desk.0.switch.set(true);
        let writer = tracer.writer();
        tracer.thread = Some(std::thread::spawn(move || writer.run(&todo)));
        tracer.close();
        let read = TraceReader::of_servers(&paths, [&lab]).read().unwrap();
        let told: u64 = read
            .iter()
            .map(|entry| match &entry.what {
                TrafficKind::Lost { count } => *count,
                _ => 1,
            })
            .sum();
        assert_eq!(told, 20);
    }
}
