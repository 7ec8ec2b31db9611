//! Session files that a disk has corrupted: garbage pages, a missing end, a log cut anywhere.
//!
//! The files are written by the real program, and opened by it.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::support::pty::TestEnv;
use crate::support::{
    program::{Ran, Running, finish, program},
    server::{self, Call},
};
use futures_util::{Stream, StreamExt as _, stream};
use longhaul::{
    domain::{HistoryEntry, Task, Wall},
    store::{ListFilter, Paths, Reader, Writer, write_atomically},
};
use rusqlite::Connection;
use rustix::process::Signal;
use tempfile::TempDir;

/// SQLite's, and nobody sets another.
const PAGE: usize = 4096;
/// What stands before the page in a frame of the log.
const FRAME: usize = 24;
/// What stands before the first frame.
const LOG_HEADER: usize = 32;

/// What a killed driver left behind, and the server that it spoke to.
struct Saved {
    file: Vec<u8>,
    /// Nothing of it has gone into the file.
    log: Vec<u8>,
    url: String,
}

impl Saved {
    /// A session of a few calls, one of them long enough for its history to be thinned, whose driver was killed in the
    /// middle of one more.
    fn get() -> &'static Self {
        static SAVED: OnceLock<Saved> = OnceLock::new();
        SAVED.get_or_init(|| {
            let dir = tempfile::tempdir().unwrap();
            let state = dir.path().join("state");
            let addr = server::one_tool("work", work);
            server::keep();
            let url = format!("http://{addr}/mcp");
            let call = |given: &[&str]| {
                let call = [
                    "-s",
                    &url,
                    "--protocol",
                    "2025-06-18",
                    "call",
                    "work",
                    "--json",
                ];
                program(&state, &[&call, given].concat())
            };
            let done = |given: &[&str]| {
                let ran = finish(&mut call(given));
                assert_eq!(ran.code, Some(0), "{ran:#?}");
            };
            done(&["steps:=6", "size:=3000"]);
            done(&["steps:=6", "size:=1"]);
            done(&["steps:=11000", "size:=900"]);
            done(&["steps:=300", "size:=2000"]);
            let db = paths(&state).db();
            free_some_pages(&db);
            let before = fs::read(&db).unwrap();
            let mut driver = Running::start(&mut call(&["steps:=60", "hold:=1"]));
            driver.prints(|event| event["value"] == 60);
            done(&["steps:=6", "size:=10"]);
            done(&["steps:=60", "size:=2000"]);
            done(&["steps:=1", "size:=1"]);
            driver.signal(Signal::KILL);
            driver.end();
            let file = fs::read(&db).unwrap();
            assert!(file == before, "the log has gone into the file");
            let log = fs::read(db.with_extension("db-wal")).unwrap();
            Saved { file, log, url }
        })
    }

    /// The frames of the log that are whole: the page, whether a commit ends with it, and where its bytes end.
    fn frames(&self) -> Vec<(usize, bool, usize)> {
        let number = |at: usize| u32::from_be_bytes(self.log[at..at + 4].try_into().unwrap());
        let ends = (LOG_HEADER + FRAME + PAGE..=self.log.len()).step_by(FRAME + PAGE);
        ends.map(|end| {
            let at = end - FRAME - PAGE;
            (number(at) as usize, number(at + 4) != 0, end)
        })
        .collect()
    }

    /// The file as it was at the last commit that ends within the first `length` bytes of the log.
    fn image(&self, length: usize) -> Vec<u8> {
        let mut image = self.file.clone();
        let frames = self.frames();
        let whole = frames.iter().take_while(|(_, _, end)| *end <= length);
        let last = whole
            .enumerate()
            .filter(|(_, (_, is_commit, _))| *is_commit)
            .last();
        let count = last.map_or(0, |(index, _)| index + 1);
        for (page, _, end) in &frames[..count] {
            let at = (page - 1) * PAGE;
            image.resize(image.len().max(at + PAGE), 0);
            image[at..at + PAGE].copy_from_slice(&self.log[end - PAGE..*end]);
        }
        image
    }
}

/// Free pages can be corrupt too.
fn free_some_pages(db: &Path) {
    let fill = "CREATE TABLE filler AS SELECT zeroblob(40000) AS bytes; DROP TABLE filler";
    Connection::open(db).unwrap().execute_batch(fill).unwrap();
}

/// As many steps and so long a result as the call asks for; one that is to hold never ends.
fn work(call: &Call) -> impl Stream<Item = String> + use<> {
    let given = |name: &str| call.arguments()[name].as_u64().unwrap_or(0);
    let mut events: Vec<String> = (1..=given("steps")).map(|step| call.step(step)).collect();
    let holds = given("hold") > 0;
    if !holds {
        let words = "result ".repeat(usize::try_from(given("size")).unwrap());
        events.push(call.result(&words));
    }
    let rest = if holds {
        stream::pending().left_stream()
    } else {
        stream::empty().right_stream()
    };
    stream::iter(events).chain(rest)
}

fn paths(state: &Path) -> Paths {
    Paths::resolve(Some(state.to_owned()), "default").unwrap()
}

/// Tasks with their history and result.
type Everything = Vec<(Task, Vec<HistoryEntry>, Option<String>)>;

fn everything(state: &Path) -> Everything {
    let all = ListFilter::ALL;
    let mut reader = Reader::open(&paths(state)).unwrap();
    let tasks = reader.tasks(all).unwrap().into_iter();
    let whole = |task: Task| {
        let history = reader.history(&task.id, 0, usize::MAX).unwrap();
        let result = reader.result(&task.id).unwrap();
        (task, history, result)
    };
    tasks.map(whole).collect()
}

/// A state directory with a file and a log in it.
struct DamagedSession {
    dir: TempDir,
    file: Vec<u8>,
    log: Option<Vec<u8>>,
    /// The description for failure messages.
    what: String,
}

impl DamagedSession {
    fn new(what: String, file: &[u8], log: Option<&[u8]>) -> Self {
        let damaged = Self {
            dir: tempfile::tempdir().unwrap(),
            file: file.to_owned(),
            log: log.map(<[u8]>::to_owned),
            what,
        };
        write_atomically(&damaged.db(), file).unwrap();
        if let Some(log) = log {
            write_atomically(&damaged.db().with_extension("db-wal"), log).unwrap();
        }
        damaged
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn db(&self) -> PathBuf {
        paths(&self.state()).db()
    }

    /// Runs a command that ends well, or says which file is how, and what becomes of it.
    fn run(&self, arguments: &[&str]) -> Ran {
        let ran = finish(&mut program(&self.state(), arguments));
        let context = format!("{}: {arguments:?}: {ran:#?}", self.what);
        assert!(!ran.err.contains("panicked"), "{context}");
        match ran.code {
            Some(0) => {}
            Some(1) if ran.err.contains("has no result yet") => {}
            Some(73) => {
                assert!(ran.err.contains(self.db().to_str().unwrap()), "{context}");
                let says = |words: &str| ran.err.contains(words);
                assert!(
                    says("moves the damaged file aside") || says("is left untouched"),
                    "{context}"
                );
            }
            _ => panic!("{context}"),
        }
        ran
    }

    /// Looks in every way that needs nobody to drive, after which everything is as it was; gives the ids that it saw.
    fn look(&self) -> Vec<String> {
        let listed = self.run(&["ls", "--json"]);
        let ids: Vec<String> = match listed.code {
            Some(0) => {
                let document = listed.document();
                let tasks = document.as_array().unwrap().iter();
                tasks
                    .map(|task| task["id"].as_str().unwrap().to_owned())
                    .collect()
            }
            _ => Vec::new(),
        };
        for id in ids.iter().take(1) {
            for command in [&["show", id, "--json"][..], &["logs", id], &["result", id]] {
                self.run(command);
            }
        }
        self.assert_kept(&self.db());
        ids
    }

    /// Whether the file of that name, and the log beside it, are what was laid there.
    fn assert_kept(&self, db: &Path) {
        assert!(
            fs::read(db).unwrap() == self.file,
            "{}: the file",
            self.what
        );
        if let Some(log) = &self.log {
            let beside = fs::read(db.with_extension("db-wal"));
            assert!(beside.is_ok_and(|it| it == *log), "{}: the log", self.what);
        }
    }

    /// The file that was set aside, if one was.
    fn aside(&self) -> Option<PathBuf> {
        let entries = fs::read_dir(paths(&self.state()).sessions_dir()).unwrap();
        let mut aside = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().unwrap() == "db")
            .filter(|path| path.to_str().unwrap().contains(".damaged-"));
        let first = aside.next();
        assert_eq!(aside.next(), None, "{}", self.what);
        first
    }

    /// Starts what drives the session, a call or the screen; says whether the file was set aside.
    fn drive(&self, with_screen: bool) -> bool {
        let said = if with_screen {
            let env = TestEnv::at(self.state());
            let mut tui = env.open(&[], (360, 36));
            // It listens once it has opened the file.
            while !paths(&self.state()).socket().exists() {
                tui.watch_for(Duration::from_millis(20));
            }
            tui.press("4");
            if self.aside().is_some() {
                tui.wait_for_line(&["default.db was damaged", "both files are in"]);
            } else {
                tui.wait_for("Messages");
            }
            let said = tui.text();
            tui.press("\u{3}\u{3}");
            assert_eq!(tui.end().0, 0, "{}", self.what);
            said
        } else {
            let url = &Saved::get().url;
            let call = [
                "-s",
                url,
                "--protocol",
                "2025-06-18",
                "call",
                "work",
                "steps:=1",
            ];
            let ran = self.run(&call);
            assert_eq!(ran.code, Some(0), "{}: {ran:#?}", self.what);
            ran.err
        };
        let Some(aside) = self.aside() else {
            return false;
        };
        self.assert_kept(&aside);
        let name = aside.file_name().unwrap().to_str().unwrap();
        let dir = paths(&self.state()).sessions_dir();
        for words in ["default.db", name, dir.to_str().unwrap()] {
            assert!(said.contains(words), "{}: {words}: {said}", self.what);
        }
        true
    }
}

/// Does each case, several at once.
fn each<T: Sync>(cases: &[T], work: impl Fn(usize, &T) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((number, case)) = {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    cases.get(number).map(|case| (number, case))
                } {
                    work(number, case);
                }
            });
        }
    });
}

/// What a page is used for, and one that is.
fn pages_by_use(file: &[u8], rng: &mut fastrand::Rng) -> BTreeMap<String, usize> {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("file.db");
    write_atomically(&db, file).unwrap();
    let connection = Connection::open(&db).unwrap();
    let mut query = connection
        .prepare("SELECT name || ' ' || pagetype, pageno FROM dbstat")
        .unwrap();
    let rows = query
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    let mut pages: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for row in rows {
        let (what, page): (String, i64) = row.unwrap();
        pages
            .entry(what)
            .or_default()
            .push(usize::try_from(page).unwrap());
    }
    let used: Vec<usize> = pages.values().flatten().copied().collect();
    // The list of what is free begins there.
    let trunk = u32::from_be_bytes(file[32..36].try_into().unwrap()) as usize;
    let free = (1..=file.len() / PAGE).filter(|page| !used.contains(page) && *page != trunk);
    pages.insert("free".to_owned(), free.collect());
    pages.insert("free trunk".to_owned(), vec![trunk]);
    let one = |(what, pages): (String, Vec<usize>)| (what, pages[rng.usize(..pages.len())]);
    pages.into_iter().map(one).collect()
}

/// How a page is corrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Corruption {
    Garbage,
    Zeros,
    /// A few bytes of it.
    Part,
}

#[test]
fn a_corrupt_page_is_quarantined_or_hides_only_its_data() {
    let saved = Saved::get();
    let mut rng = fastrand::Rng::with_seed(5);
    let mut cases = Vec::new();
    for (what, page) in pages_by_use(&saved.file, &mut rng) {
        for corruption in [Corruption::Garbage, Corruption::Zeros, Corruption::Part] {
            let mut file = saved.file.clone();
            let page = &mut file[(page - 1) * PAGE..page * PAGE];
            let part = match corruption {
                Corruption::Part => {
                    // What the page holds stands at its end.
                    &mut page[PAGE - 64..]
                }
                _ => page,
            };
            for byte in part {
                *byte = if corruption == Corruption::Zeros {
                    0
                } else {
                    rng.u8(..)
                };
            }
            cases.push((what.clone(), corruption, file));
        }
    }
    assert!(cases.len() > 60, "{}", cases.len());
    each(&cases, |number, (what, corruption, file)| {
        let damaged = DamagedSession::new(format!("{corruption:?} in {what}"), file, None);
        let seen = damaged.look();
        let is_aside = damaged.drive(number % 3 == 0);
        match (corruption, what.as_str()) {
            // Nobody looks there, and nothing is lost.
            (_, "free") => assert!(!is_aside && seen.len() == 4, "{}", damaged.what),
            // The last of a chain says nothing that could be checked.
            (Corruption::Zeros, what) if what.ends_with("overflow") => {}
            (Corruption::Garbage | Corruption::Zeros, _) => assert!(is_aside, "{}", damaged.what),
            // No call was made with --once, and `hook_event` is not used.
            (Corruption::Part, what) if what.contains("_once") || what.contains("hook_event") => {}
            (Corruption::Part, what) if what.contains("_by_") => {
                assert!(is_aside, "{}", damaged.what);
            }
            (Corruption::Part, what) if what.contains("index") => {
                assert!(is_aside, "{}", damaged.what);
            }
            (Corruption::Part, _) => {}
        }
        let listed = damaged.run(&["ls", "--json"]);
        assert_eq!(listed.code, Some(0), "{}: {listed:#?}", damaged.what);
        let left = listed.document();
        let is_left = |id: &String| left.as_array().unwrap().iter().any(|it| it["id"] == **id);
        assert!(
            is_aside || seen.iter().all(is_left),
            "{}: {left:#}",
            damaged.what
        );
    });
}

#[test]
fn a_wrong_index_is_damage_and_duplicates_no_task() {
    let saved = Saved::get();
    let pages = pages_by_use(&saved.file, &mut fastrand::Rng::with_seed(8));
    let page = (pages["sqlite_autoindex_task_1 leaf"] - 1) * PAGE;
    // The last letter of the page is one of an id.
    let mut file = saved.file.clone();
    let is_letter = |at: &usize| file[*at].is_ascii_lowercase();
    let at = (page..page + PAGE).rev().find(is_letter).unwrap();
    file[at] = if file[at] == b'z' { b'y' } else { b'z' };
    let damaged = DamagedSession::new("a letter of an index".to_owned(), &file, None);
    assert!(damaged.drive(false));
}

#[test]
fn a_corrupt_record_hides_no_other_record() {
    // Of each table that has them, in turn.
    for (table, column) in [
        ("task", "body"),
        ("link", "body"),
        ("result", "json"),
        ("history", "body"),
    ] {
        for corrupted in [&b"\xff\xfe"[..], b"{\0\0"] {
            let damaged =
                DamagedSession::new(format!("{table} {corrupted:?}"), &Saved::get().file, None);
            let connection = Connection::open(damaged.db()).unwrap();
            // In the middle of the longest.
            let sql = format!(
                "UPDATE {table} SET {column} = CAST(CAST(substr({column}, 1, 40) AS BLOB) || ?1 || \
                 CAST(substr({column}, 43) AS BLOB) AS TEXT) \
                 WHERE rowid = (SELECT rowid FROM {table} ORDER BY length({column}) DESC LIMIT 1)"
            );
            assert_eq!(connection.execute(&sql, [corrupted]).unwrap(), 1);
            drop(connection);
            let damaged = DamagedSession {
                file: fs::read(damaged.db()).unwrap(),
                ..damaged
            };
            let seen = damaged.look();
            assert_eq!(
                seen.len(),
                if table == "task" { 3 } else { 4 },
                "{}",
                damaged.what
            );
            let listed = damaged.run(&["ls"]);
            let is_told = listed.err.contains("1 record in ") && listed.err.contains("untouched");
            assert_eq!(is_told, table == "task", "{}: {listed:#?}", damaged.what);
            for id in &seen {
                let logs = damaged.run(&["logs", id]);
                assert_eq!(logs.code, Some(0), "{}: {logs:#?}", damaged.what);
                damaged.run(&["result", id]);
            }
            let all: Vec<Ran> = seen.iter().map(|id| damaged.run(&["logs", id])).collect();
            let gaps = all
                .iter()
                .filter(|ran| ran.out.contains("of this history can't be read"));
            assert_eq!(
                gaps.count(),
                usize::from(table == "history"),
                "{}",
                damaged.what
            );
            let results = seen.iter().map(|id| damaged.run(&["result", id]));
            let refused = results.filter(|ran| ran.code == Some(73)).count();
            assert_eq!(refused, usize::from(table == "result"), "{}", damaged.what);
            assert!(!damaged.drive(false), "{}", damaged.what);
            let left = damaged.run(&["ls", "--json"]).document();
            assert_eq!(
                left.as_array().unwrap().len(),
                seen.len() + 1,
                "{}",
                damaged.what
            );
        }
    }
}

#[test]
fn recovers_or_quarantines_a_truncated_file_with_its_log() {
    let saved = Saved::get();
    let frames = saved.frames();
    assert!(frames.last().unwrap().1, "{frames:?}");
    let mut rng = fastrand::Rng::with_seed(6);
    let mut lengths = vec![0, 1, 2, 16, 99, 100, saved.file.len() - 1];
    let boundaries = (1..=saved.file.len() / PAGE).filter(|page| *page < 4 || rng.u8(..) < 20);
    lengths.extend(boundaries.flat_map(|page| [page * PAGE - 1, page * PAGE, page * PAGE + 1]));
    lengths.extend((0..4).map(|_| rng.usize(..saved.file.len())));
    // A full disk can stop the log's way into the file at any byte.
    lengths.extend((1..=6).map(|part| saved.file.len() + part * 1000));
    let mut cases: Vec<(usize, usize)> = lengths.iter().map(|it| (*it, saved.log.len())).collect();
    // Of a short log, which has none of the last pages; what little is missing would pass for zeros.
    let first = frames
        .iter()
        .find(|(_, is_commit, _)| *is_commit)
        .unwrap()
        .2;
    cases.extend([1, 40, 1000].map(|missing| (saved.file.len() - missing, first)));
    each(&cases, |number, (length, logged)| {
        let mut file = saved.file.clone();
        file.resize(*length, 7);
        let what = format!("cut at {length} with {logged} of the log");
        let damaged = DamagedSession::new(what, &file, Some(&saved.log[..*logged]));
        damaged.look();
        let image = saved.image(*logged);
        let oracle = DamagedSession::new("the image".to_owned(), &image, None);
        let oracle = everything(&oracle.state());
        let count = image.len() / PAGE;
        let is_in_log = |page: usize| {
            let is_it = |(it, _, end): &(usize, bool, usize)| *it == page && end <= logged;
            frames.iter().any(is_it)
        };
        let is_whole = *length > 1 && (length / PAGE + 1..=count).all(is_in_log);
        if is_whole {
            assert!(everything(&damaged.state()) == oracle, "{}", damaged.what);
        }
        let is_set_aside = damaged.drive(number % 4 == 0);
        if is_whole {
            assert!(!is_set_aside, "{}", damaged.what);
            let tasks = everything(&damaged.state());
            let is_left = |one: &(Task, Vec<HistoryEntry>, Option<String>)| {
                tasks
                    .iter()
                    .any(|(task, _, result)| task.id == one.0.id && *result == one.2)
            };
            assert!(oracle.iter().all(is_left), "{}", damaged.what);
        }
    });
}

#[test]
fn reads_a_damaged_log_up_to_the_damage() {
    let saved = Saved::get();
    let mut rng = fastrand::Rng::with_seed(7);
    let frames = saved.frames();
    let commits = frames.iter().filter(|(_, is_commit, _)| *is_commit);
    assert!(commits.clone().count() > 8, "{frames:?}");
    let mut lengths: Vec<usize> = commits.map(|(_, _, end)| *end).collect();
    lengths.extend((0..6).map(|_| frames[rng.usize(..frames.len())].2));
    lengths = lengths
        .iter()
        .flat_map(|end| [end - 1, *end, end + 1])
        .collect();
    lengths.extend([0, 1, LOG_HEADER - 1, LOG_HEADER, LOG_HEADER + 1]);
    lengths.extend((0..4).map(|_| rng.usize(..saved.log.len())));
    lengths.retain(|length| *length <= saved.log.len());
    let cases: Vec<(usize, bool)> = lengths.into_iter().map(|it| (it, rng.bool())).collect();
    each(&cases, |number, (length, is_cut)| {
        let mut log = saved.log.clone();
        if *is_cut {
            log.truncate(*length);
        } else {
            // SQLite ignores a corrupt frame and all frames after it.
            for byte in log.iter_mut().skip(*length).take(8) {
                *byte ^= 0x55;
            }
        }
        let what = format!(
            "log of {} {} at {length}",
            saved.log.len(),
            if *is_cut { "cut" } else { "spoiled" }
        );
        let damaged = DamagedSession::new(what, &saved.file, Some(&log));
        let image = saved.image(if *is_cut || *length >= LOG_HEADER {
            *length
        } else {
            0
        });
        let image = DamagedSession::new("the image".to_owned(), &image, None);
        let wanted = everything(&image.state());
        assert!(everything(&damaged.state()) == wanted, "{}", damaged.what);
        damaged.assert_kept(&damaged.db());
        if number % 4 == 0 {
            let seen = damaged.look();
            assert_eq!(seen.len(), wanted.len(), "{}", damaged.what);
            assert!(!damaged.drive(number % 8 == 0), "{}", damaged.what);
        } else {
            let opened = Writer::open(&paths(&damaged.state()), Wall(1)).unwrap();
            assert_eq!(opened.notices, Vec::<String>::new(), "{}", damaged.what);
            drop(opened);
            assert!(everything(&damaged.state()) == wanted, "{}", damaged.what);
        }
    });
}

/// What somebody else could have put into a session file: in the place of a table, beside it, within it.
const FOREIGN: [(&str, &str); 4] = [
    (
        "view",
        "DROP TABLE task; CREATE VIEW task (id, body, is_settled, once, created_at, forgotten_at) AS
         WITH RECURSIVE more (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more)
         SELECT n, '{}', 1, NULL, n, NULL FROM more;",
    ),
    (
        "trigger",
        "CREATE TRIGGER gone AFTER INSERT ON task BEGIN DELETE FROM task; END;",
    ),
    (
        "table task",
        "ALTER TABLE task ADD COLUMN costly TEXT GENERATED ALWAYS AS (hex(zeroblob(100000000))) VIRTUAL;",
    ),
    (
        "index costly",
        "CREATE INDEX costly ON task (abs(created_at));",
    ),
];

#[test]
fn quarantines_a_session_file_of_another_program() {
    let addr = server::one_tool("work", work);
    let url = format!("http://{addr}/mcp");
    for (what, sql) in FOREIGN {
        let dir = tempfile::tempdir().unwrap();
        let call = || {
            finish(&mut program(
                dir.path(),
                &["-s", &url, "call", "work", "size:=1"],
            ))
        };
        assert_eq!(call().code, Some(0), "{what}");
        let db = paths(dir.path()).db();
        Connection::open(&db).unwrap().execute_batch(sql).unwrap();
        let before = fs::read(&db).unwrap();

        let listed = finish(&mut program(dir.path(), &["ls"]));
        assert_eq!(
            (listed.code, listed.out.as_str()),
            (Some(73), ""),
            "{what}: {listed:#?}"
        );
        assert!(listed.err.contains(what), "{what}: {listed:#?}");
        assert_eq!(fs::read(&db).unwrap(), before, "{what}: only read");

        let called = call();
        assert_eq!(called.code, Some(0), "{what}: {called:#?}");
        assert!(
            called.err.contains("has been moved to"),
            "{what}: {called:#?}"
        );
        assert!(called.err.contains(what), "{what}: {called:#?}");
        let listed = finish(&mut program(dir.path(), &["ls", "--all", "--json"])).document();
        assert_eq!(
            listed.as_array().unwrap().len(),
            1,
            "{what}: the new call is kept"
        );
        let mut kept = fs::read_dir(db.parent().unwrap()).unwrap().flatten();
        let is_same = |entry: fs::DirEntry| fs::read(entry.path()).is_ok_and(|it| it == before);
        assert!(kept.any(is_same), "{what}: it is kept as it was");
    }
}

#[test]
fn treats_the_limit_on_file_sizes_as_a_full_disk() {
    let addr = server::one_tool("work", work);
    let url = format!("http://{addr}/mcp");
    let dir = tempfile::tempdir().unwrap();
    let call = ["-s", &url, "call", "work", "steps:=10", "size:=400000"];
    let unlimited = program(dir.path(), &call);
    let mut limited = std::process::Command::new("/bin/sh");
    limited
        .args(["-c", "ulimit -f 1000; exec \"$0\" \"$@\""])
        .arg(unlimited.get_program())
        .args(unlimited.get_args())
        .env_clear()
        .envs(
            unlimited
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut running = Running::start(&mut limited);
    running.says("may not grow any larger");
    running.signal(Signal::TERM);
    let ran = running.end();
    assert!(ran.code.is_some(), "no signal killed it: {ran:#?}");
    let listed = finish(&mut program(dir.path(), &["ls", "--all", "--json"])).document();
    assert_eq!(listed[0]["tool"], "work");
}
