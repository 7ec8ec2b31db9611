//! The session file against crashes, damage, strangers at its place and other processes.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail by panic, as the test does"
)]

use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use longhaul::{
    domain::{
        Attempt, ControlKind, ControlRequest, HistoryEntry, HistoryEvent, LinkRecord, LogLevel,
        LostReason, NewCall, Phase, Progress, ProtocolVersion, Resumability, Row, ServerName,
        Status, Task, TaskError, TaskErrorKind, TaskId, Tool, UnknownReason, Wall,
    },
    store::{
        DriverLock, Durability, ListFilter, Lookup, Opened, Paths, Reader, StoreError, Writer,
        write_atomically,
    },
};
use proptest::prelude::*;
use rusqlite::Connection;
use tempfile::TempDir;

const NOW: Wall = Wall(1_795_157_518_120);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Where the children of this test binary find their work.
const CHILD_DIR: &str = "LONGHAUL_TEST_CHILD_DIR";

fn place() -> (TempDir, Paths) {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::resolve(Some(dir.path().join("state")), "default").unwrap();
    (dir, paths)
}

fn open(paths: &Paths) -> Opened {
    Writer::open(paths, NOW).unwrap()
}

fn id(number: u64) -> TaskId {
    TaskId::from_bits(number)
}

fn task(number: u64) -> Task {
    Task {
        updated_at: NOW,
        attempts: vec![attempt(1)],
        ..Task::new(
            Wall(NOW.0 + i64::try_from(number).unwrap()),
            NewCall::new(
                id(number),
                ServerName::new("lab"),
                "get_forecast".into(),
                r#"{"city":"Lisbon"}"#.into(),
            ),
        )
    }
}

fn attempt(number: u32) -> Attempt {
    Attempt {
        number,
        request_id: format!("abcd-{number}"),
        token: format!("t-{number}"),
        phase: Phase::Open,
        session_number: 1,
        started_at: NOW,
        ..Attempt::default()
    }
}

fn step(seq: u64, attempt: u32) -> HistoryEntry {
    HistoryEntry {
        seq,
        at: Wall(NOW.0 + i64::try_from(seq).unwrap()),
        attempt,
        event_id: Some(format!("e{seq}").into()),
        what: HistoryEvent::Progress(Progress {
            value: seq as f64,
            total: None,
            message: None,
        }),
    }
}

fn contact(seq: u64) -> HistoryEntry {
    HistoryEntry {
        what: HistoryEvent::Contact {
            state: "live".to_owned(),
            why: String::new(),
        },
        ..step(seq, 1)
    }
}

fn log(seq: u64, level: LogLevel) -> HistoryEntry {
    HistoryEntry {
        what: HistoryEvent::Log {
            level,
            logger: None,
            data: format!("line {seq}"),
        },
        ..step(seq, 1)
    }
}

fn history(number: u64, entries: Vec<HistoryEntry>) -> Row {
    Row::History {
        task: id(number),
        entries: entries.into_iter().collect(),
    }
}

fn row(task: &Task) -> Row {
    Row::Task(Box::new(task.clone()))
}

fn seqs(entries: &[HistoryEntry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.seq).collect()
}

fn files(paths: &Paths) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(paths.sessions_dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A session with something of everything, closed in order.
fn filled(paths: &Paths) -> Vec<Row> {
    let rows = rich_rows();
    let mut opened = open(paths);
    opened.writer.save(&rows, Durability::Full, NOW).unwrap();
    rows
}

fn rich_rows() -> Vec<Row> {
    let mut running = task(1);
    running.name = Some("eu-2026".into());
    running.note = Some("note".into());
    running.tag = Some("night".into());
    running.options.once = Some("key-1".into());
    running.status = Status::Paused;
    running.control = Some(ControlRequest {
        what: ControlKind::Pausing,
        at: NOW,
    });
    running.resumability = Resumability {
        task: false,
        checkpoint: true,
        stream: Some(true),
    };
    running.client_id = Some("c-1".into());
    running.server_task_id = Some("st-1".into());
    running.progress = Progress::reported(30.0, Some(50.0), Some("Processed 30/50".into()));
    running.options.limits.idle = Some(Duration::from_secs(60));
    running.attempts = vec![attempt(1), attempt(2)];
    running.attempts[1].cursors.data = Some("s1_7".into());
    running.seq = 5;
    let mut failed = task(2);
    failed.status = Status::Failed;
    failed.end.settled_at = Some(NOW);
    failed.end.error = Some(TaskError {
        kind: TaskErrorKind::Tool,
        code: Some(-32_000),
        message: "quota exceeded".into(),
        data: None,
    });
    let mut lost = task(3);
    lost.status = Status::Lost(LostReason::SessionGone {
        after_restart: true,
        server_text: Some("no such session".into()),
    });
    let mut unknown = task(4);
    unknown.status = Status::Unknown(UnknownReason::HttpStatus(502));
    let mut link = LinkRecord::new(ServerName::new("lab"), "http://127.0.0.1:1/mcp");
    link.version = Some(ProtocolVersion::V20250618);
    link.session = Some("secret".into());
    link.tools = vec![Tool {
        name: "get_forecast".into(),
        title: None,
        description: Some("the weather".into()),
        input_schema: "{}".into(),
        read_only: Some(true),
        destructive: None,
        idempotent: None,
        task_support: longhaul::domain::TaskSupport::Forbidden,
        fault: None,
    }];
    vec![
        Row::Link(Box::new(link)),
        row(&running),
        row(&failed),
        row(&lost),
        row(&unknown),
        history(1, vec![step(1, 1), log(2, LogLevel::Info), step(3, 2)]),
        history(1, vec![step(4, 2), log(5, LogLevel::Info)]),
        history(2, (1..200).map(|seq| log(seq, LogLevel::Info)).collect()),
        Row::Result {
            task: id(2),
            json: format!(
                r#"{{"content":[],"isError":true,"pad":"{}"}}"#,
                "x".repeat(9000)
            ),
        },
    ]
}

fn assert_filled(paths: &Paths, rows: &[Row]) {
    let restored = open(paths).restored;
    let mut reader = Reader::open(paths).unwrap();
    for row in rows {
        match row {
            Row::Task(task) => {
                let found = restored.tasks.iter().find(|found| found.task.id == task.id);
                assert_eq!(found.map(|found| &found.task), Some(&**task));
            }
            Row::Link(link) => assert!(restored.links.contains(link)),
            Row::History { task, entries } => {
                let saved = reader.history(task, 0, usize::MAX).unwrap();
                assert!(entries.iter().all(|entry| saved.contains(entry)));
            }
            Row::Result { task, json } => {
                assert_eq!(reader.result(task).unwrap().as_ref(), Some(json));
            }
            Row::Erase(_) => {}
        }
    }
}

#[test]
fn everything_saved_comes_back() {
    let (_dir, paths) = place();
    let rows = filled(&paths);
    assert_filled(&paths, &rows);
    let restored = open(&paths).restored;
    let first = &restored.tasks[0];
    assert_eq!(first.task.id, id(1));
    // Only the ids of the present attempt, oldest first.
    assert_eq!(first.recent_ids, ["e3", "e4"]);
    assert!(
        restored
            .tasks
            .iter()
            .filter(|found| found.task.status.is_settled())
            .all(|found| found.recent_ids.is_empty())
    );
}

#[test]
fn a_recalled_task_has_the_same_event_ids_as_a_restored_one() {
    let (_dir, paths) = place();
    let mut opened = open(&paths);
    let steps = (1..=5).map(|seq| step(seq, 1));
    // Its server says much that has no id.
    let chat = (6..=3000).map(|seq| HistoryEntry {
        event_id: None,
        ..log(seq, LogLevel::Info)
    });
    let mut task = task(1);
    task.status = Status::Running;
    task.attempts = vec![attempt(1)];
    let rows = [row(&task), history(1, steps.chain(chat).collect())];
    opened.writer.save(&rows, Durability::Full, NOW).unwrap();
    drop(opened);
    let restored = open(&paths).restored;
    assert_eq!(restored.tasks[0].recent_ids, ["e1", "e2", "e3", "e4", "e5"]);
    let mut reader = Reader::open(&paths).unwrap();
    let known = reader.recent_ids(&task).unwrap();
    assert_eq!(known, restored.tasks[0].recent_ids);
}

#[test]
fn a_reader_sees_an_empty_session_until_the_first_save() {
    let (_dir, paths) = place();
    let mut reader = Reader::open(&paths).unwrap();
    assert_eq!(reader.tasks(ListFilter::default()), Ok(Vec::new()));
    assert_eq!(reader.saved_at(), Ok(None));
    assert_eq!(reader.task("a"), Ok(Lookup::None));
    let mut opened = open(&paths);
    let rows = rich_rows();
    opened.writer.save(&rows, Durability::Normal, NOW).unwrap();
    assert_eq!(reader.saved_at(), Ok(Some(NOW)));
    let ids: Vec<TaskId> = reader
        .tasks(ListFilter {
            limit: Some(2),
            ..ListFilter::default()
        })
        .unwrap()
        .into_iter()
        .map(|task| task.id)
        .collect();
    assert_eq!(ids, [id(4), id(3)]);
    assert_eq!(seqs(&reader.history(&id(1), 1, 2).unwrap()), [2, 3]);
    assert_eq!(seqs(&reader.history_tail(&id(1), 3).unwrap()), [3, 4, 5]);
    assert_eq!(reader.links().unwrap().len(), 1);
}

#[test]
fn a_prefix_finds_its_task_and_prefers_what_is_not_forgotten() {
    let (_dir, paths) = place();
    let mut opened = open(&paths);
    // The first letters stand for the lowest bits: these two differ only in the last one.
    let (mut one, two) = (task(0), task(1 << 25));
    one.options.once = Some("k".into());
    let prefix: String = one.id.as_str().chars().take(5).collect();
    let prefix = prefix.as_str();
    opened
        .writer
        .save(&[row(&one), row(&two)], Durability::Full, NOW)
        .unwrap();
    let mut reader = Reader::open(&paths).unwrap();
    assert_eq!(
        reader.task(prefix),
        Ok(Lookup::Many(vec![two.id.clone(), one.id.clone()]))
    );
    assert_eq!(
        reader.task(one.id.as_str()),
        Ok(Lookup::One(Box::new(one.clone())))
    );
    one.forgotten_at = Some(NOW);
    opened
        .writer
        .save(&[row(&one)], Durability::Full, NOW)
        .unwrap();
    assert_eq!(reader.task(prefix), Ok(Lookup::One(Box::new(two.clone()))));
    assert_eq!(reader.tasks(ListFilter::default()), Ok(vec![two]));
    let all = ListFilter {
        all: true,
        ..ListFilter::default()
    };
    assert_eq!(reader.tasks(all).unwrap().len(), 2);
    for nothing in ["zzzz", "", "'; --", "%"] {
        assert_eq!(reader.task(nothing), Ok(Lookup::None));
    }
    assert_eq!(reader.once("k"), Ok(Some(one.id.clone())));
    assert_eq!(reader.once("other"), Ok(None));
    assert_eq!(reader.task(one.id.as_str()), Ok(Lookup::One(Box::new(one))));
}

#[test]
fn removed_tasks_can_be_restored_for_seven_days() {
    let (_dir, paths) = place();
    let mut opened = open(&paths);
    let mut gone = task(1);
    gone.forgotten_at = Some(NOW);
    let rows = [row(&gone), row(&task(2)), history(1, vec![step(1, 1)])];
    opened.writer.save(&rows, Durability::Full, NOW).unwrap();
    drop(opened);
    drop(Writer::open(&paths, NOW.after(DAY * 6)).unwrap());
    let mut reader = Reader::open(&paths).unwrap();
    assert_eq!(
        reader.task(gone.id.as_str()),
        Ok(Lookup::One(Box::new(gone.clone())))
    );
    let later = Writer::open(&paths, NOW.after(DAY * 8)).unwrap();
    assert_eq!(later.restored.tasks.len(), 1);
    assert_eq!(reader.task(gone.id.as_str()), Ok(Lookup::None));
    assert_eq!(reader.history(&gone.id, 0, 9), Ok(Vec::new()));
}

#[test]
fn an_erased_intent_leaves_nothing() {
    let (_dir, paths) = place();
    let mut opened = open(&paths);
    let rows = [
        row(&task(1)),
        history(1, vec![step(1, 1)]),
        Row::Erase(id(1)),
    ];
    opened.writer.save(&rows, Durability::Full, NOW).unwrap();
    let mut reader = Reader::open(&paths).unwrap();
    assert_eq!(reader.task(id(1).as_str()), Ok(Lookup::None));
    assert_eq!(reader.history(&id(1), 0, 9), Ok(Vec::new()));
}

#[test]
fn repeating_an_uncertain_save_duplicates_nothing() {
    let (_dir, paths) = place();
    let mut opened = open(&paths);
    let mut save = |entries: Vec<HistoryEntry>| {
        opened
            .writer
            .save(&[history(1, entries)], Durability::Normal, NOW)
            .unwrap();
    };
    save(vec![step(1, 1), step(2, 1)]);
    save(vec![step(1, 1), step(2, 1)]);
    // The second try may have grown in the meantime.
    save(vec![step(1, 1), step(2, 1), log(3, LogLevel::Info)]);
    save(vec![log(3, LogLevel::Info), step(4, 1)]);
    let saved = Reader::open(&paths)
        .unwrap()
        .history(&id(1), 0, 99)
        .unwrap();
    assert_eq!(seqs(&saved), [1, 2, 3, 4]);
}

#[test]
fn a_failed_save_leaves_nothing_and_can_be_retried() {
    let (_dir, paths) = place();
    let mut opened = open(&paths);
    let other = Connection::open(paths.db()).unwrap();
    let made = "SELECT sql FROM sqlite_schema WHERE name = 'result'";
    let made: String = other.query_row(made, [], |row| row.get(0)).unwrap();
    other.execute_batch("DROP TABLE result").unwrap();
    let rows = rich_rows();
    let failed = opened.writer.save(&rows, Durability::Full, NOW);
    assert!(
        matches!(failed, Err(StoreError::CannotWrite { .. })),
        "{failed:?}"
    );
    let mut reader = Reader::open(&paths).unwrap();
    assert_eq!(reader.tasks(ListFilter::default()), Ok(Vec::new()));
    assert_eq!(reader.history(&id(1), 0, 9), Ok(Vec::new()));
    assert_eq!(reader.saved_at(), Ok(None));
    other.execute_batch(&made).unwrap();
    opened.writer.save(&rows, Durability::Full, NOW).unwrap();
    drop((opened, other));
    assert_filled(&paths, &rows);
}

#[test]
fn reports_a_file_removed_under_the_writer() {
    let (_dir, paths) = place();
    let mut opened = open(&paths);
    let aside = paths.sessions_dir().join("moved");
    fs::rename(paths.db(), &aside).unwrap();
    let failed = opened.writer.save(&[row(&task(1))], Durability::Full, NOW);
    assert!(matches!(failed, Err(StoreError::CannotWrite { .. })));
    fs::rename(&aside, paths.db()).unwrap();
    opened
        .writer
        .save(&[row(&task(1))], Durability::Full, NOW)
        .unwrap();
}

#[test]
fn thins_and_marks_the_middle_of_a_long_history() {
    let (_dir, paths) = place();
    let mut opened = open(&paths);
    // Chunks of uneven size; of every hundred lines one is a warning, and a few are logs of other kinds.
    let entry = |seq: u64| match seq % 100 {
        0 => log(seq, LogLevel::Warning),
        7 => log(seq, LogLevel::Info),
        13 if seq.is_multiple_of(1000) || seq % 1000 == 13 => contact(seq),
        _ => step(seq, 1),
    };
    let entries: Vec<HistoryEntry> = (1..=30_000).map(entry).collect();
    save_in_chunks(&mut opened.writer, &entries);
    let saved = Reader::open(&paths)
        .unwrap()
        .history(&id(1), 0, usize::MAX)
        .unwrap();
    let count = |entries: &[HistoryEntry], is_it: fn(&HistoryEntry) -> bool| {
        entries.iter().filter(|entry| is_it(entry)).count()
    };
    let is_bulk: fn(&HistoryEntry) -> bool = |entry| {
        matches!(
            entry.what,
            HistoryEvent::Progress(_) | HistoryEvent::Log { .. }
        )
    };
    let is_loud: fn(&HistoryEntry) -> bool =
        |entry| matches!(entry.what, HistoryEvent::Log { level, .. } if level >= LogLevel::Warning);
    let kept = count(&saved, is_bulk);
    assert!((6000..=10_000).contains(&kept), "{kept}");
    assert!(saved.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    assert_eq!(saved[..1000], entries[..1000]);
    assert_eq!(saved[saved.len() - 5000..], entries[25_000..]);
    let is_contact: fn(&HistoryEntry) -> bool =
        |entry| matches!(entry.what, HistoryEvent::Contact { .. });
    assert_eq!(count(&saved, is_contact), count(&entries, is_contact));
    // Of 300 warnings most are there, though three quarters of the rest of the middle are not.
    assert!(count(&saved, is_loud) > 150, "{}", count(&saved, is_loud));
    let marks: Vec<&str> = saved
        .iter()
        .filter_map(|entry| match &entry.what {
            HistoryEvent::Status { reason, .. } => reason.as_deref(),
            _ => None,
        })
        .collect();
    let left_out = longhaul::domain::text::grouped((count(&entries, is_bulk) - kept) as u64);
    assert_eq!(
        marks,
        [format!(
            "{left_out} lines between here and the newest were left out to keep the history small"
        )]
    );
}

#[test]
fn a_corrupt_history_chunk_is_a_gap_and_saving_continues() {
    let (_dir, paths) = place();
    let mut opened = open(&paths);
    let entries: Vec<HistoryEntry> = (1..=9_000).map(|seq| step(seq, 1)).collect();
    for chunk in entries.chunks(1000) {
        let rows = [history(1, chunk.to_vec())];
        opened.writer.save(&rows, Durability::Full, NOW).unwrap();
    }
    let spoil = "UPDATE history SET body = CAST(x'ff' || body AS TEXT) WHERE first_seq = 3001";
    let other = Connection::open(paths.db()).unwrap();
    assert_eq!(other.execute(spoil, ()).unwrap(), 1);
    let more: Vec<HistoryEntry> = (9_001..=12_000).map(|seq| step(seq, 1)).collect();
    save_in_chunks(&mut opened.writer, &more);
    let mut reader = Reader::open(&paths).unwrap();
    let saved = reader.history(&id(1), 0, usize::MAX).unwrap();
    assert!(saved.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    assert_eq!(saved[saved.len() - 3000..], more);
    let is_gap = |entry: &&HistoryEntry| match &entry.what {
        HistoryEvent::Status { reason, .. } => reason.as_ref().is_some_and(|words| {
            words.starts_with("entries 3001 to 3250 of this history can't be read")
        }),
        _ => false,
    };
    assert_eq!(saved.iter().filter(is_gap).count(), 1);
    // Read in pages of any size it is the same, and comes to an end.
    let mut paged: Vec<HistoryEntry> = Vec::new();
    loop {
        let after = paged.last().map_or(0, |entry| entry.seq);
        let page = reader.history(&id(1), after, 700).unwrap();
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, saved);
    let tail = reader.history_tail(&id(1), usize::MAX).unwrap();
    assert_eq!(seqs(&tail), seqs(&saved));
}

#[test]
fn no_flood_of_log_lines_of_any_level_fills_the_disk() {
    // The last one logs three warnings and one other line, again and again.
    for level in [LogLevel::Debug, LogLevel::Emergency, LogLevel::Warning] {
        let (_dir, paths) = place();
        let mut opened = open(&paths);
        let level_of = |seq: u64| match level {
            LogLevel::Warning if seq.is_multiple_of(4) => LogLevel::Info,
            level => level,
        };
        let entries = (1..=40_000).map(|seq| log(seq, level_of(seq)));
        let entries: Vec<HistoryEntry> = entries.collect();
        save_in_chunks(&mut opened.writer, &entries);
        let saved = Reader::open(&paths)
            .unwrap()
            .history(&id(1), 0, usize::MAX)
            .unwrap();
        assert!(saved.len() <= 10_001, "{level:?}: {}", saved.len());
        assert_eq!(saved[saved.len() - 5000..], entries[35_000..]);
    }
}

#[test]
fn a_burst_is_thinned() {
    let (_dir, paths) = place();
    let mut opened = open(&paths);
    let entries: Vec<HistoryEntry> = (1..=200_000)
        .map(|seq: u64| {
            if seq.is_multiple_of(50_000) {
                contact(seq)
            } else {
                step(seq, 1)
            }
        })
        .collect();
    let steps = |entries: &[HistoryEntry]| {
        let is_step = |entry: &&HistoryEntry| matches!(entry.what, HistoryEvent::Progress(_));
        entries.iter().filter(is_step).count()
    };
    for saved in [100_000, 200_000] {
        let burst = entries[saved - 100_000..saved].to_vec();
        let rows = [history(1, burst)];
        opened.writer.save(&rows, Durability::Normal, NOW).unwrap();
        // Saved again, as after an error, it is there once.
        opened.writer.save(&rows, Durability::Normal, NOW).unwrap();
        let sent = &entries[..saved];
        let kept = Reader::open(&paths)
            .unwrap()
            .history(&id(1), 0, usize::MAX)
            .unwrap();
        assert!(kept.windows(2).all(|pair| pair[0].seq < pair[1].seq));
        assert!((6000..=10_000).contains(&steps(&kept)), "{}", kept.len());
        assert_eq!(kept[..1000], sent[..1000]);
        assert_eq!(kept[kept.len() - 5000..], sent[saved - 5000..]);
        let is_contact = |entry: &&HistoryEntry| matches!(entry.what, HistoryEvent::Contact { .. });
        assert_eq!(kept.iter().filter(is_contact).count(), saved / 50_000);
        let left_out = longhaul::domain::text::grouped(steps(sent) - steps(&kept));
        let marks = kept.iter().filter_map(|entry| match &entry.what {
            HistoryEvent::Status { reason, .. } => reason.as_deref(),
            _ => None,
        });
        let marks: Vec<&str> = marks.collect();
        assert_eq!(marks.len(), 1, "{marks:?}");
        assert!(
            marks[0].starts_with(&format!("{left_out} lines ")),
            "{marks:?}"
        );
    }
}

fn save_in_chunks(writer: &mut Writer, entries: &[HistoryEntry]) {
    let mut rest = entries;
    for size in [1, 7, 300, 2].into_iter().cycle() {
        let (chunk, after) = rest.split_at(size.min(rest.len()));
        writer
            .save(&[history(1, chunk.to_vec())], Durability::Normal, NOW)
            .unwrap();
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
}

#[test]
fn restores_the_newest_settled_tasks_and_recalls_the_rest() {
    let (_dir, paths) = place();
    let mut opened = open(&paths);
    let rows: Vec<Row> = (0..1200)
        .map(|number| {
            let mut task = task(number);
            if number != 3 {
                task.status = Status::Completed;
            }
            row(&task)
        })
        .collect();
    opened.writer.save(&rows, Durability::Full, NOW).unwrap();
    drop(opened);
    let opened = open(&paths);
    assert_eq!(opened.restored.tasks.len(), 1001);
    assert_eq!(opened.restored.tasks[0].task.id, id(3));
    assert_eq!(opened.restored.tasks[1000].task.id, id(1199));
    let oldest = Reader::open(&paths).unwrap().task(id(0).as_str());
    assert!(matches!(oldest, Ok(Lookup::One(_))));
}

#[test]
fn reports_and_keeps_a_record_it_cannot_decode() {
    let (_dir, paths) = place();
    filled(&paths);
    let strange = r#"{"from":"the future"}"#;
    Connection::open(paths.db())
        .unwrap()
        .execute(
            "UPDATE task SET body = ?1 WHERE id = ?2",
            [strange, id(2).as_str()],
        )
        .unwrap();
    let opened = open(&paths);
    assert_eq!(opened.restored.tasks.len(), 3);
    assert!(
        opened.notices[0].starts_with("1 record in "),
        "{:?}",
        opened.notices
    );
    drop(opened);
    let kept: String = Connection::open(paths.db())
        .unwrap()
        .query_row(
            "SELECT body FROM task WHERE id = ?1",
            [id(2).as_str()],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(kept, strange);
}

#[test]
fn a_newer_file_is_read_and_not_written() {
    let (_dir, paths) = place();
    filled(&paths);
    Connection::open(paths.db())
        .unwrap()
        .pragma_update(None, "user_version", 7)
        .unwrap();
    let before = fs::read(paths.db()).unwrap();
    let refused = Writer::open(&paths, NOW).map(|_| ());
    assert_eq!(
        refused,
        Err(StoreError::Newer {
            path: paths.db(),
            found: 7,
            known: 2
        })
    );
    assert_eq!(fs::read(paths.db()).unwrap(), before);
    let mut reader = Reader::open(&paths).unwrap();
    assert_eq!(reader.tasks(ListFilter::default()).unwrap().len(), 4);
}

#[test]
fn refuses_a_foreign_database_and_leaves_it_alone() {
    let (_dir, paths) = place();
    Connection::open(paths.db())
        .unwrap()
        .execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
        .unwrap();
    let before = fs::read(paths.db()).unwrap();
    assert!(matches!(
        Writer::open(&paths, NOW),
        Err(StoreError::Refused { .. })
    ));
    assert_eq!(fs::read(paths.db()).unwrap(), before);
}

#[test]
fn refuses_foreign_file_types_with_a_reason() {
    type Stranger = (&'static str, fn(&Path));
    let strangers: [Stranger; 4] = [
        ("symbolic link", |path| symlink("elsewhere", path).unwrap()),
        ("directory", |path| fs::create_dir(path).unwrap()),
        ("named pipe", |path| {
            assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        }),
        ("regular file", |path| {
            std::os::unix::net::UnixListener::bind(path).unwrap();
        }),
    ];
    for (what, make) in strangers {
        let (_dir, paths) = place();
        make(&paths.db());
        make(&paths.lock());
        for refused in [
            Writer::open(&paths, NOW).map(|_| ()),
            Reader::open(&paths).map(|_| ()),
            DriverLock::try_take(&paths).map(|_| ()),
        ] {
            let error = refused.unwrap_err();
            assert!(matches!(error, StoreError::Refused { .. }), "{error}");
            assert!(error.to_string().contains(what), "{error}");
        }
    }
    let dir = tempfile::tempdir().unwrap();
    symlink("/", dir.path().join("sessions")).unwrap();
    let refused = Paths::resolve(Some(dir.path().to_owned()), "default");
    assert!(matches!(refused, Err(StoreError::Refused { .. })));
}

#[test]
fn nobody_else_can_read_the_files() {
    let (dir, paths) = place();
    let mut opened = open(&paths);
    opened
        .writer
        .save(&[row(&task(1))], Durability::Full, NOW)
        .unwrap();
    let _lock = DriverLock::try_take(&paths).unwrap();
    write_atomically(&paths.sessions_dir().join("small"), b"x").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir.path().join("state")), 0o700);
    assert_eq!(mode(&paths.sessions_dir()), 0o700);
    for name in files(&paths) {
        assert_eq!(mode(&paths.sessions_dir().join(&name)), 0o600, "{name}");
    }
    drop(opened);
    fs::set_permissions(paths.db(), fs::Permissions::from_mode(0o644)).unwrap();
    open(&paths);
    assert_eq!(mode(&paths.db()), 0o600);
}

#[test]
fn a_log_without_its_file_is_set_aside_and_not_thrown_away() {
    let (_dir, paths) = place();
    let mut opened = open(&paths);
    opened
        .writer
        .save(&rich_rows(), Durability::Full, NOW)
        .unwrap();
    let wal = paths.db().with_extension("db-wal");
    let log = fs::read(&wal).unwrap();
    drop(opened);
    fs::remove_file(paths.db()).unwrap();
    write_atomically(&wal, &log).unwrap();
    let opened = open(&paths);
    assert_eq!(opened.notices.len(), 1);
    let aside = files(&paths)
        .into_iter()
        .find(|name| name.contains(".damaged-"))
        .unwrap();
    assert_eq!(fs::read(paths.sessions_dir().join(aside)).unwrap(), log);
}

/// The bytes of a filled session, made once.
fn whole_file() -> &'static [u8] {
    static BYTES: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    BYTES.get_or_init(|| {
        let (_dir, paths) = place();
        filled(&paths);
        fs::read(paths.db()).unwrap()
    })
}

fn put(path: &Path, bytes: &[u8]) {
    File::create(path).unwrap().write_all(bytes).unwrap();
}

fn assert_set_aside(bytes: &[u8]) -> Result<(), TestCaseError> {
    let (_dir, paths) = place();
    put(&paths.db(), bytes);
    let mut opened = open(&paths);
    prop_assert_eq!(opened.notices.len(), 1);
    prop_assert!(opened.restored.tasks.is_empty());
    let aside = files(&paths)
        .into_iter()
        .find(|name| name.contains(".damaged-") && !name.contains(".db-"));
    let aside = paths.sessions_dir().join(aside.unwrap_or_default());
    let (name, dir) = (aside.file_name().unwrap(), paths.sessions_dir());
    // A narrow screen shows two lines of it.
    let begin = "default.db was damaged and has been moved to ";
    let first = format!("{begin}{}: ", name.to_str().unwrap());
    prop_assert!(opened.notices[0].starts_with(&first) && begin.len() <= 60);
    for part in [name.as_ref(), dir.as_path()] {
        prop_assert!(opened.notices[0].contains(part.to_str().unwrap()));
    }
    prop_assert_eq!(fs::read(aside).unwrap(), bytes);
    // The session still works.
    let saved = opened.writer.save(&[row(&task(1))], Durability::Full, NOW);
    prop_assert_eq!(saved, Ok(()));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: Some(Box::new(
            proptest::test_runner::FileFailurePersistence::Direct("tests/it/store.proptest-regressions"),
        )),
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_file_cut_at_any_length_is_set_aside_whole(part in 0.0..1.0_f64, near in 0_usize..600) {
        let whole = whole_file();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a length")]
        let far = (whole.len() as f64 * part) as usize;
        for length in [far, near, whole.len() - 1 - near] {
            // An empty file is a new one.
            if length > 0 {
                assert_set_aside(&whole[..length])?;
            }
        }
    }

    #[test]
    fn quarantines_any_other_file_unchanged(bytes in prop::collection::vec(any::<u8>(), 1..5000)) {
        assert_set_aside(&bytes)?;
    }

    #[test]
    fn any_rows_survive_the_file(
        rows in prop::collection::vec(any_task(), 1..8),
        entries in prop::collection::vec((any::<String>(), prop::option::of(any::<String>()), 0.0..1e15_f64), 1..50),
        json in any::<String>(),
    ) {
        let (_dir, paths) = place();
        let entries: Vec<HistoryEntry> = (1..).zip(entries).map(|(seq, (text, event_id, value))| HistoryEntry {
            event_id: event_id.map(Into::into),
            what: if seq % 2 == 0 {
                HistoryEvent::Progress(Progress { value, total: None, message: Some(text.into()) })
            } else {
                HistoryEvent::Log { level: LogLevel::Error, logger: Some(text.clone()), data: text }
            },
            ..step(seq, 1)
        }).collect();
        let mut all: Vec<Row> = (0..).zip(rows).map(|(number, task)| row(&Task { id: id(number), ..task })).collect();
        all.push(history(0, entries));
        all.push(Row::Result { task: id(0), json: serde_json::json!(json).to_string() });
        let mut opened = open(&paths);
        opened.writer.save(&all, Durability::Normal, NOW).unwrap();
        drop(opened);
        assert_filled(&paths, &all);
    }
}

fn any_task() -> impl Strategy<Value = Task> {
    let texts = (any::<String>(), prop::option::of(any::<String>()));
    let status = prop_oneof![
        Just(Status::Running),
        Just(Status::InputRequired),
        Just(Status::Completed),
        Just(Status::Cancelled),
        Just(Status::Unknown(UnknownReason::NoIds)),
        prop::option::of(any::<String>())
            .prop_map(|said| Status::Lost(LostReason::ReplayGone { server_text: said })),
    ];
    let value = prop::option::of((0.0..1e15_f64).prop_map(|value| value));
    (texts, status, value, any::<i64>(), any::<bool>()).prop_map(
        |((text, maybe), status, value, time, flag)| {
            let mut task = task(0);
            task.arguments.clone_from(&text);
            task.name.clone_from(&maybe);
            task.options.once.clone_from(&maybe);
            task.tool = text;
            task.status = status;
            task.progress = value
                .and_then(|value| Progress::reported(value, None, maybe.clone().map(Into::into)));
            task.attempts[0].last_value = value;
            task.attempts[0].cursors.newest = maybe.map(Into::into);
            task.created_at = Wall(time);
            task.end.is_seen = flag;
            task
        },
    )
}

/// Runs one of the tests below as a child that acts on a session of ours.
fn child(test: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD_DIR, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// What a child was asked to work on; `None` in an ordinary run.
fn as_child() -> Option<Paths> {
    let dir = std::env::var_os(CHILD_DIR)?;
    Some(Paths::resolve(Some(PathBuf::from(dir)), "default").unwrap())
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nchild: {line}").unwrap();
    out.flush().unwrap();
}

fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("child: ").map(str::to_owned))
}

#[test]
fn child_that_holds_the_lock() {
    let Some(paths) = as_child() else { return };
    let lock = DriverLock::try_take(&paths).unwrap();
    say(if lock.is_some() { "locked" } else { "refused" });
    // Until the parent goes or kills us.
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn one_process_drives_and_its_death_frees_the_session() {
    let (dir, paths) = place();
    let state = dir.path().join("state");
    assert_eq!(DriverLock::holder(&paths), None);
    let mut driver = child("store::child_that_holds_the_lock", &state);
    assert_eq!(lines(&mut driver).next().unwrap(), "locked");
    assert!(DriverLock::try_take(&paths).unwrap().is_none());
    assert_eq!(DriverLock::holder(&paths), Some(driver.id()));
    driver.kill().unwrap();
    driver.wait().unwrap();
    assert_eq!(DriverLock::holder(&paths), None);
    let lock = DriverLock::try_take(&paths).unwrap().unwrap();
    assert_eq!(DriverLock::holder(&paths), Some(std::process::id()));
    let mut second = child("store::child_that_holds_the_lock", &state);
    assert_eq!(lines(&mut second).next().unwrap(), "refused");
    drop(second.stdin.take());
    second.wait().unwrap();
    drop(lock);
    assert_eq!(DriverLock::holder(&paths), None);
}

#[test]
fn child_that_saves_until_it_is_killed() {
    let Some(paths) = as_child() else { return };
    let mut writer = open(&paths).writer;
    for seq in 1.. {
        let mut task = task(1);
        task.seq = seq;
        let durability = if seq % 3 == 0 {
            Durability::Full
        } else {
            Durability::Normal
        };
        let rows = [row(&task), history(1, vec![step(seq, 1)])];
        writer.save(&rows, durability, NOW).unwrap();
        say(&seq.to_string());
    }
}

#[test]
fn saved_data_survives_kill_dash_nine() {
    let (dir, paths) = place();
    for lives in 1..=5 {
        let mut saver = child(
            "store::child_that_saves_until_it_is_killed",
            &dir.path().join("state"),
        );
        let mut heard = lines(&mut saver);
        let before: Vec<String> = heard.by_ref().take(lives * 7).collect();
        assert_eq!(before.len(), lives * 7);
        saver.kill().unwrap();
        saver.wait().unwrap();
        let said: u64 = heard
            .last()
            .or(before.last().cloned())
            .unwrap()
            .parse()
            .unwrap();
        let opened = open(&paths);
        assert!(opened.notices.is_empty());
        let kept = opened.restored.tasks[0].task.seq;
        assert!(kept >= said, "{kept} < {said}");
        let entries = Reader::open(&paths)
            .unwrap()
            .history(&id(1), 0, usize::MAX)
            .unwrap();
        let whole: Vec<u64> = (1..=entries.len() as u64).collect();
        assert_eq!(seqs(&entries), whole);
        assert!(entries.len() as u64 >= kept);
    }
}

/// The fixture of a format. Written once, when the format was made, and never again:
/// `LONGHAUL_WRITE_FIXTURE=2 cargo test --test it fixture`.
fn fixture(format: u32) -> PathBuf {
    let name = format!("tests/fixtures/session-v{format}.db");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[test]
fn a_session_of_each_format_opens_for_ever_fixture() {
    if let Some(format) = std::env::var_os("LONGHAUL_WRITE_FIXTURE") {
        let (_dir, paths) = place();
        filled(&paths);
        let format = format.to_str().unwrap().parse().unwrap();
        write_atomically(&fixture(format), &fs::read(paths.db()).unwrap()).unwrap();
    }
    for format in [1, 2] {
        let (_dir, paths) = place();
        put(&paths.db(), &fs::read(fixture(format)).unwrap());
        let rows = rich_rows();
        let opened = open(&paths);
        assert!(opened.notices.is_empty());
        drop(opened);
        assert_filled(&paths, &rows);
    }
}

#[test]
fn a_session_on_a_read_only_place_can_be_read() {
    let (_dir, paths) = place();
    filled(&paths);
    let sessions = paths.sessions_dir();
    fs::set_permissions(&sessions, fs::Permissions::from_mode(0o500)).unwrap();
    // Root may write anyway; then there is nothing to see here.
    let is_refused = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(sessions.join("probe"))
        .is_err();
    let mut reader = Reader::open(&paths).unwrap();
    let found = reader.tasks(ListFilter::default()).unwrap().len();
    drop(reader);
    fs::set_permissions(&sessions, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(found, 4, "refused: {is_refused}");
}
