//! What keys and events do.

use std::sync::Arc;

use longhaul::{
    app::{
        Approval, Command, ConfigReread, Event, ExitNote, ExitWhen, Focus, Group, GroupTitle,
        KeyOverride, Keymap, ListRow, Menu, Overlay, Pane, Settings, Setup, State, Tab,
        TerminalCommand, UserInput, lane_of, next_wake, update,
    },
    domain::{
        Caller, Chord, Connectivity, ControlKind, CutReason, GaveUp, GaveUpReason, HistoryEntry,
        HistoryEvent, IfCut, LogLevel, Mono, NewCall, Notice, NoticeLevel, NotifyConfig,
        NotifyLevel, OverallProgress, Progress, SavedRead, ServerConfigs, ServerName,
        SessionDriver, SessionEvent, SessionRequest, SessionResponse, Status, TaskId, TaskView,
        Turn, UnknownReason, Wall,
    },
};

use super::support::*;

fn news(screen: &mut Screen, view: longhaul::domain::TaskView) {
    screen.event(Event::Session(SessionEvent::Task(Arc::new(view))));
}

#[test]
fn a_state_is_built_in_one_line_and_equals_itself() {
    let state = State::new(Setup::default());
    assert_eq!(state, state.clone());
}

#[test]
fn pause_resume_and_cancel_go_to_the_engine() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.todo.clear();
    screen.keys("p");
    assert_eq!(asks(&screen), [SessionRequest::Pause(id("q7m2xk"))]);
    screen.todo.clear();
    screen.keys("r");
    assert_eq!(asks(&screen), [SessionRequest::Resume(id("q7m2xk"))]);
    screen.todo.clear();
    screen.keys("x").wait(500).keys("y");
    assert_eq!(asks(&screen), [SessionRequest::Cancel(id("q7m2xk"))]);
    assert!(screen.state.dialogs.stack.is_empty());
}

#[test]
fn a_key_typed_right_after_a_dialog_opened_confirms_nothing() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.todo.clear();
    screen.keys("x y enter");
    assert_eq!(asks(&screen), []);
    assert_eq!(screen.state.dialogs.stack.len(), 1);
    screen.wait(500).keys("enter");
    // The item chosen at first does no harm.
    assert_eq!(asks(&screen), []);
    assert!(screen.state.dialogs.stack.is_empty());
}

#[test]
fn keys_that_cannot_act_answer_why() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.go_to("c5b8yp");
    screen.todo.clear();
    for (key, words) in [
        ("p", "nothing to pause"),
        ("x", "nothing to cancel"),
        ("r", "press R to run it again"),
        ("b", "only available in the demo"),
        ("L", "no server needs"),
        ("u", "nothing was removed on this screen"),
        ("ctrl-g", "does nothing here"),
    ] {
        screen.keys(key);
        assert!(
            answer(&screen).contains(words),
            "{key}: {}",
            answer(&screen)
        );
    }
    assert_eq!(asks(&screen), []);
    screen.state.setup.readonly = true;
    screen.keys("n");
    assert!(answer(&screen).contains("read-only"));
}

#[test]
fn a_second_pause_offers_to_stop_and_keep_the_checkpoint() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.go_to("t9x4gz");
    screen.todo.clear();
    screen.keys("p");
    assert!(matches!(
        screen.state.dialogs.stack.last(),
        Some(Overlay::Menu {
            menu: Menu::StopNow(_),
            ..
        })
    ));
    screen.wait(500).keys("s");
    assert_eq!(asks(&screen), [SessionRequest::StopNow(id("t9x4gz"))]);
}

#[test]
fn quits_at_once_when_safe_and_tells_how_to_resume() {
    let mut screen = Screen::new(WIDE, colour());
    news(&mut screen, morning().remove(3));
    screen.keys("q");
    let note = ExitNote {
        line: "quit: 1 continues; to open the list again: `longhaul`".to_owned(),
        stops_keeper: false,
    };
    assert_eq!(screen.state.exit.note.as_ref(), Some(&note));
    assert_eq!(screen.todo.last(), Some(&Command::Quit(note)));
    assert_eq!(next_wake(&screen.state, screen.now), None);
}

#[test]
fn leaving_what_would_die_asks_and_a_second_ctrl_c_leaves() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("ctrl-c");
    assert!(screen.state.exit.note.is_none());
    assert!(screen.draw().contains("LOST      pd6xw8"));
    screen.keys("ctrl-c");
    assert!(screen.state.exit.note.is_some());
}

#[test]
fn ctrl_c_leaves_from_inside_a_form() {
    let mut screen = Screen::new(WIDE, colour());
    news(&mut screen, morning().remove(3));
    screen.keys("R").type_in("x").keys("ctrl-c");
    assert!(screen.state.exit.note.is_some());
}

#[test]
fn quitting_waits_for_calls_that_would_end_and_can_be_undone() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("q").wait(500).keys("w");
    assert_eq!(screen.state.exit.when, ExitWhen::NothingLost);
    assert!(
        screen
            .draw()
            .contains("longhaul quits when pd6xw8 has ended")
    );
    screen.keys("esc");
    assert_eq!(screen.state.exit.when, ExitWhen::No);
    screen.keys("q").wait(500).keys("w");
    let dying = settled(morning().remove(6), Status::Completed, 0);
    news(&mut screen, dying);
    assert!(screen.state.exit.note.is_some());
}

#[test]
fn cancel_all_and_leave_waits_for_proof_but_not_for_ever() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.todo.clear();
    screen.keys("q").wait(500).keys("c");
    let cancelled = asks(&screen)
        .iter()
        .filter(|ask| matches!(ask, SessionRequest::Cancel(_)))
        .count();
    assert_eq!(cancelled, 5);
    assert!(screen.state.exit.note.is_none());
    screen.wait(5_000);
    assert!(screen.state.exit.note.is_some());
}

#[test]
fn a_viewer_leaves_freely() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.event(Event::Session(SessionEvent::Driver(SessionDriver {
        pid: 77,
        is_us: false,
        is_keeper: false,
        since: Wall(0),
    })));
    screen.keys("q");
    assert_eq!(
        screen
            .state
            .exit
            .note
            .as_ref()
            .map(|note| note.line.as_str()),
        Some("process 77 keeps running the calls; to watch again: `longhaul`")
    );
}

#[test]
fn the_list_is_grouped_by_need_by_server_or_by_status() {
    let mut screen = Screen::morning(WIDE, colour());
    let tasks = |screen: &Screen| {
        let rows = screen.state.list.rows.iter();
        rows.filter(|line| matches!(line, ListRow::Task(_))).count()
    };
    // Every row stands below the title of its group, and the titles count what is there.
    let is_right = |screen: &Screen| {
        let (mut title, mut left) = (None, 0);
        for line in &screen.state.list.rows {
            match line {
                ListRow::Heading(of, heads) => {
                    assert_eq!(left, 0, "{title:?}");
                    (title, left) = (Some(of), heads.count);
                }
                ListRow::Task(id) => {
                    let task_row = screen.state.tasks.get(id).unwrap();
                    let task = &task_row.view.task;
                    assert!(match title.unwrap() {
                        GroupTitle::Need(group) => task_row.listed_group == *group,
                        GroupTitle::Server(server) => task.server == *server,
                        GroupTitle::Status(word) => task.status.row_label() == *word,
                        GroupTitle::Caller(label) =>
                            task.caller.as_ref().map(|it| it.label()) == *label,
                    });
                    left -= 1;
                }
            }
        }
        assert_eq!(left, 0, "{title:?}");
    };
    let all = tasks(&screen);
    is_right(&screen);
    for grouping in ["server", "status", "FROM", "urgency"] {
        screen.keys("B");
        assert_eq!(answer(&screen), format!("grouped by {grouping}"));
        is_right(&screen);
        assert_eq!(tasks(&screen), all);
    }
    screen.keys(".");
    let done = |screen: &Screen| {
        let rows = screen.state.list.rows.iter();
        rows.filter(|line| match line {
            ListRow::Task(id) => {
                screen.state.tasks.get(id).unwrap().listed_group == Group::Finished
            }
            ListRow::Heading(..) => false,
        })
        .count()
    };
    assert!(tasks(&screen) < all && done(&screen) == 0);
    assert!(screen.draw_text().contains("(. to unfold)"));
}

#[test]
fn approval_requires_the_whole_text_on_screen() {
    let approval = |lines: Vec<String>| Approval {
        pending: lines,
        digest: "d".to_owned(),
        is_program: true,
        ..Approval::default()
    };
    let server = longhaul::domain::ServerName::new("files");
    let agreed = |size, lines: Vec<String>| {
        let mut screen = Screen::morning(size, colour());
        screen.event(Event::ApprovalRead(server.clone(), approval(lines.clone())));
        screen.todo.clear();
        let shown = screen.draw_text();
        screen.wait(500).keys("y");
        let is_agreed = screen.todo
            == [Command::Approve {
                server: server.clone(),
                digest: "d".to_owned(),
            }];
        assert!(
            !is_agreed || lines.iter().all(|line| shown.contains(line.as_str())),
            "{shown}"
        );
        is_agreed
    };
    let few: Vec<String> = (0..7).map(|at| format!("argument {at}")).collect();
    let many: Vec<String> = (0..60).map(|at| format!("argument {at}")).collect();
    let long = vec![format!("argument {}; touch x", "x".repeat(600))];
    for (size, is_seen) in [((80, 24), true), ((120, 36), true), ((60, 15), false)] {
        assert_eq!(agreed(size, few.clone()), is_seen, "{size:?}");
        assert!(!agreed(size, many.clone()), "{size:?}");
    }
    assert!(!agreed((80, 24), long.clone()));
    assert!(!agreed((60, 15), long));
}

#[test]
fn a_settled_row_stays_under_the_cursor_and_moves_once_seen() {
    let mut screen = Screen::morning(WIDE, colour());
    let group = |screen: &Screen| {
        let before = screen
            .state
            .list
            .rows
            .iter()
            .take_while(|line| **line != longhaul::app::ListRow::Task(id("q7m2xk")));
        before
            .filter(|line| matches!(line, longhaul::app::ListRow::Heading(..)))
            .count()
    };
    assert_eq!(group(&screen), 2);
    news(
        &mut screen,
        settled(morning().remove(3), Status::Completed, 0),
    );
    screen.wait(5_000);
    assert_eq!(group(&screen), 2, "it moved away under the cursor");
    screen.todo.clear();
    screen.keys("j");
    assert_eq!(asks(&screen), [SessionRequest::Seen(id("q7m2xk"))]);
    assert_eq!(group(&screen), 2, "it moved within a second of a key");
    screen.wait(1_000);
    assert_eq!(group(&screen), 3);
    assert_eq!(screen.state.list.cursor, Some(id("m2hn5t")));
}

#[test]
fn a_failed_row_stays_until_the_cursor_leaves() {
    let mut screen = Screen::morning(WIDE, colour());
    let line = screen.state.list.cursor_row;
    news(&mut screen, settled(morning().remove(3), Status::Failed, 0));
    screen.wait(5_000);
    assert_eq!(screen.state.list.cursor_row, line);
    screen.keys("j").wait(1_000);
    assert_eq!(screen.state.list.cursor, Some(id("m2hn5t")));
    let first = screen
        .state
        .list
        .rows
        .iter()
        .position(|line| *line == longhaul::app::ListRow::Task(id("q7m2xk")));
    assert_ne!(first, Some(line), "it stays where nobody looks for it");
}

#[test]
fn a_task_that_ends_in_view_counts_as_seen() {
    let mut screen = Screen::morning(WIDE, colour());
    news(
        &mut screen,
        settled(morning().remove(6), Status::Completed, 0),
    );
    screen.todo.clear();
    // Nobody there: nothing is seen, however long it stands on the screen.
    screen.wait(60_000);
    assert_eq!(asks(&screen), []);
    screen.keys("w");
    assert_eq!(asks(&screen), [SessionRequest::Seen(id("pd6xw8"))]);
}

#[test]
fn passing_over_a_row_is_not_seeing_it() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.todo.clear();
    screen.keys("g j j j");
    assert_eq!(asks(&screen), []);
    screen.go_to("c5b8yp").wait(2_000).keys("j");
    assert_eq!(asks(&screen), [SessionRequest::Seen(id("c5b8yp"))]);
}

#[test]
fn failed_and_lost_tasks_need_you_until_you_choose() {
    for name in ["8fw2mc", "w4ud2e"] {
        let mut screen = Screen::morning(WIDE, colour());
        screen.keys("esc").go_to(name);
        screen.todo.clear();
        // Resting on it, reading it and closing it again decide nothing.
        screen.wait(5_000).keys("k j enter").wait(500);
        screen.keys("esc esc").wait(5_000).keys("k");
        assert!(
            !asks(&screen).contains(&SessionRequest::Seen(id(name))),
            "{name}"
        );
        assert!(
            screen.state.tasks.get(&id(name)).unwrap().ended_unseen(),
            "{name}"
        );
        screen.go_to(name).keys("enter").wait(500);
        if screen.state.dialogs.stack.is_empty() {
            screen.keys("enter").wait(500);
        }
        assert!(screen.draw().contains("do nothing"), "{name}");
        screen.keys("n");
        assert!(
            asks(&screen).contains(&SessionRequest::Seen(id(name))),
            "{name}"
        );
        screen.keys("esc").go_to("q7m2xk").wait(2_000);
        assert_eq!(
            screen.state.tasks.get(&id(name)).unwrap().listed_group,
            Group::Finished
        );
    }
}

#[test]
fn a_failed_task_that_is_run_again_needs_no_attention() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc").go_to("8fw2mc");
    screen.todo.clear();
    screen.keys("R esc");
    assert!(!asks(&screen).contains(&SessionRequest::Seen(id("8fw2mc"))));
    screen.keys("R ctrl-s").wait(1_000).keys("y");
    assert!(asks(&screen).contains(&SessionRequest::Seen(id("8fw2mc"))));
}

#[test]
fn the_first_letter_takes_the_place_of_a_default() {
    let sent = |keys: &[&str]| {
        let mut screen = Screen::morning(WIDE, colour());
        screen.keys("esc n enter").answer_tools();
        screen.keys("enter").type_in("eu").keys("tab");
        for key in keys {
            match key.strip_prefix("paste:") {
                Some(words) => screen.type_in(words),
                None => screen.keys(key),
            };
        }
        screen.keys("ctrl-s");
        match asks(&screen).pop() {
            Some(SessionRequest::Start(call)) => call.arguments,
            other => panic!("{other:?}"),
        }
    };
    for (keys, total) in [
        (&["8", "0"][..], 80),
        (&["paste:70"], 70),
        (&["tab", "shift-tab", "9"], 9),
        (&["end", "5"], 1005),
        (&["left", "5"], 1050),
        (&["backspace", "5"], 105),
        (&[], 100),
    ] {
        let arguments = sent(keys);
        let wanted = format!("\"total_records\":{total},");
        assert!(arguments.contains(&wanted), "{keys:?}: {arguments}");
    }
}

#[test]
fn new_rows_never_move_the_cursor_to_another_task() {
    let mut screen = Screen::morning(WIDE, colour());
    let mut other = morning().remove(3);
    other.task.id = id("zzzzz2");
    other.task.created_at = Wall(NOW + 5);
    news(&mut screen, other);
    screen.wait(2_000);
    assert_eq!(screen.state.list.cursor, Some(id("q7m2xk")));
    assert!(screen.draw().contains("zzzzz2"));
}

#[test]
fn the_filter_supports_words_fields_and_negation() {
    let shown = |typed: &str| {
        let mut screen = Screen::morning(WIDE, colour());
        screen.keys("esc /").type_in(typed);
        let count = screen.state.list.rows.iter();
        count
            .filter(|line| matches!(line, longhaul::app::ListRow::Task(_)))
            .count()
    };
    for (typed, count) in [
        ("", 9),
        ("render", 2),
        ("render !13", 1),
        ("status:failed", 1),
        ("status:run", 4),
        ("server:ci", 2),
        ("scene=13", 1),
        ("tag:x", 0),
        ("!status:", 9),
    ] {
        assert_eq!(shown(typed), count, "{typed}");
    }
}

#[test]
fn actions_on_marks_report_total_and_hidden_counts() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc a / ").type_in("reindex").keys("enter");
    screen.todo.clear();
    screen.keys("p");
    assert_eq!(
        answer(&screen),
        "pause requested for 4 tasks, 3 of them hidden; 5 skipped, still marked"
    );
    assert_eq!(asks(&screen).len(), 4);
    // What is refused stays marked.
    let is_ask = |command: &Command| match command {
        Command::Request(ask, SessionRequest::Pause(task)) => Some((*ask, task.clone())),
        _ => None,
    };
    let (request, task) = screen.todo.iter().find_map(is_ask).unwrap();
    assert!(!screen.state.list.marks.contains(&task));
    let outcome = Err(longhaul::domain::RequestError::Usage(
        "not paused".to_owned(),
    ));
    screen.event(Event::Session(SessionEvent::Response { request, outcome }));
    assert!(screen.state.list.marks.contains(&task));
    // Only affected tasks are counted.
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc a . x");
    let drawn = screen.draw_text();
    assert!(drawn.contains("already ended"), "{drawn}");
    assert!(!drawn.contains("of them are hidden"), "{drawn}");
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc a / ").type_in("reindex").keys("enter D");
    let told = &screen.state.messages.log.back().unwrap().text;
    assert_eq!(
        told,
        "removed 4 tasks, 4 of them hidden; u undoes this; 5 skipped, still marked"
    );
}

#[test]
fn a_row_that_asks_shows_the_key_that_cancels_it() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.go_to("k3v9ra");
    assert!(screen.draw_text().contains("x cancel"));
}

#[test]
fn counts_set_their_thousands_apart() {
    let mut screen = Screen::morning(WIDE, colour());
    (
        screen.state.totals.counts.running,
        screen.state.totals.counts.finished,
    ) = (1_320, 20_000);
    let shown = screen.draw_text();
    assert!(shown.contains("1,320 running  20,000 finished"), "{shown}");
}

#[test]
fn the_timeline_of_what_has_settled_ends_with_it() {
    let mut screen = Screen::morning(WIDE, colour());
    let sent = (ago(7 * SECOND), Turn::Sent);
    screen.read_milestones(vec![(id("q7m2xk"), vec![sent])]);
    screen.go_to("q7m2xk").wait(10_000);
    let mut ended = screen.state.tasks[&id("q7m2xk")].view.as_ref().clone();
    ended.task.status = Status::Failed;
    ended.task.end.settled_at = Some(screen.now.wall);
    ended.contact = Connectivity::Idle;
    let at = screen.state.clock_seconds(screen.now.wall);
    screen.news(ended).wait(3_600_000);
    let drawn = screen.draw_text();
    let (_, timeline) = drawn.rsplit_once("timeline 0").unwrap();
    let (_, timeline) = timeline.split_once(' ').unwrap();
    let (bar, end) = timeline.split_once(' ').unwrap();
    assert!(end.starts_with(&at), "{timeline}");
    let run = bar.strip_suffix('✗').expect(bar);
    assert_eq!(run.matches('━').count(), run.chars().count(), "{bar}");
}

#[test]
fn the_timeline_of_an_unknown_task_ends_when_it_became_unknown() {
    let mut screen = Screen::morning(WIDE, colour());
    let asked = (ago(7 * SECOND), Turn::Asking);
    let became = screen.now.wall;
    let unknown = (became, Turn::Disconnected);
    screen.read_milestones(vec![(id("q7m2xk"), vec![asked, unknown])]);
    let mut unknown = screen.state.tasks[&id("q7m2xk")].view.as_ref().clone();
    unknown.task.status = Status::Unknown(UnknownReason::NoIds);
    screen.news(unknown).wait(3_600_000);
    let lane = lane_of(
        &screen.state,
        &screen.state.tasks[&id("q7m2xk")],
        screen.now,
    );
    assert_eq!(lane.periods.last().unwrap().to, became);
}

#[test]
fn tasks_are_told_apart_by_the_argument_that_differs_most() {
    let mut screen = Screen::morning(WIDE, colour());
    for (name, secs, label) in [
        ("aaaaaa", 600, "k1"),
        ("bbbbbb", 600, "k2"),
        ("cccccc", 120, "u1"),
    ] {
        let arguments = format!(r#"{{"secs":{secs},"label":"{label}"}}"#);
        screen.news(task(name, "lab", "slow", &arguments, MINUTE));
    }
    for (name, label) in [("aaaaaa", "k1"), ("bbbbbb", "k2"), ("cccccc", "u1")] {
        let row = &screen.state.tasks[&id(name)];
        assert_eq!(screen.state.whole_label(row), format!("slow label={label}"));
    }
}

#[test]
fn the_first_screen_counts_from_the_first_task() {
    let mut screen = Screen::new(WIDE, colour());
    let view = settled(
        task("aaaaaa", "lab", "echo", "{}", 3 * MINUTE),
        Status::Completed,
        2 * MINUTE,
    );
    screen.event(Event::Restored {
        watched_at: None,
        views: vec![Arc::new(view)],
        servers: Vec::new(),
        saved_at: Some(ago(MINUTE)),
    });
    let drawn = screen.draw_text();
    assert!(drawn.contains("away (3 min): 1 completed"), "{drawn}");
    // The first read has only the newest tasks. What ends in front of the user is no news.
    let older = task("bbbbbb", "lab", "echo", "{}", 4 * MINUTE);
    screen.news(settled(older, Status::Completed, 2 * MINUTE));
    let mut now = task("cccccc", "lab", "echo", "{}", 3 * MINUTE);
    screen.news(now.clone());
    now.task.status = Status::Completed;
    now.task.end.settled_at = Some(Wall(screen.now.wall.0 + 5_000));
    screen.news(now);
    screen.event(Event::Session(SessionEvent::Driver(SessionDriver {
        pid: 7,
        is_us: false,
        is_keeper: true,
        since: ago(2 * MINUTE),
    })));
    let drawn = screen.draw_text();
    assert!(drawn.contains("away (3 min): 2 completed"), "{drawn}");
}

#[test]
fn printing_waits_for_the_result() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.go_to("c5b8yp");
    screen.todo.clear();
    screen.keys("Y");
    let prints = |screen: &Screen| {
        let prints = screen.todo.iter().filter_map(|it| match it {
            Command::Terminal(TerminalCommand::Print(text)) => Some(text.clone()),
            _ => None,
        });
        prints.collect::<Vec<_>>()
    };
    screen.event(history_read(id("c5b8yp"), Vec::new()));
    assert_eq!(prints(&screen), [""; 0]);
    let result = r#"{"content":[{"type":"text","text":"done"}]}"#;
    screen.event(result_read(id("c5b8yp"), result));
    let [text] = prints(&screen).try_into().unwrap();
    assert!(text.contains("done"), "{text}");
}

#[test]
fn a_letter_jumps_to_the_next_choice_that_begins_with_it() {
    let schema = r#"{"properties": {"place": {"enum": ["Aachen", "Bonn", "Berlin"]}}}"#;
    let mut screen = form_of(USUAL, schema);
    for place in ["Bonn", "Berlin", "Bonn"] {
        screen.keys("b");
        assert!(
            screen.draw().contains(&format!("< {place} >")),
            "{}",
            screen.draw()
        );
    }
}

#[test]
fn typing_keeps_the_marks_of_other_fields() {
    let schema = r#"{"properties": {"first": {"type": "integer", "minimum": 5}, "second": {"type": "integer", "minimum": 5}}}"#;
    let mut screen = form_of(USUAL, schema);
    screen.type_in("1").keys("down").type_in("1").keys("ctrl-s");
    let drawn = screen.draw();
    assert!(
        drawn.contains("first!") && drawn.contains("second!"),
        "{drawn}"
    );
    screen.keys("backspace");
    let drawn = screen.draw();
    assert!(
        !drawn.contains("first!") && drawn.contains("second!"),
        "{drawn}"
    );
}

#[test]
fn a_form_without_fields_says_whether_there_are_arguments() {
    let none = "This tool takes no arguments.";
    for (schema, is_none) in [
        (
            r#"{"type":"object","properties":{},"additionalProperties":false}"#,
            true,
        ),
        (
            r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
            false,
        ),
        (r#"{"type":"object","additionalProperties":true}"#, false),
        (
            r#"{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}]}"#,
            false,
        ),
    ] {
        let drawn = form_of(USUAL, schema).draw();
        assert_eq!(drawn.contains(none), is_none, "{drawn}");
    }
}

#[test]
fn the_now_tab_shows_when_the_task_was_disconnected() {
    let mut screen = Screen::morning(WIDE, colour());
    let mut view = screen.state.tasks[&id("t9x4gz")].view.as_ref().clone();
    view.saved_seq = 9;
    screen.news(view).go_to("t9x4gz");
    let read = Command::Read(SavedRead::Milestones(vec![(id("t9x4gz"), 0)]));
    assert!(screen.todo.contains(&read), "{:?}", screen.todo);
    let timeline = |screen: &mut Screen| {
        let drawn = screen.draw_text();
        let (_, timeline) = drawn.rsplit_once("timeline 0")?;
        timeline.lines().next().map(str::to_owned)
    };
    assert_eq!(timeline(&mut screen), None, "nothing was read yet");
    screen.read_lives();
    let shown = timeline(&mut screen).unwrap();
    assert!(
        shown.contains("━‖") && shown.contains("‖━") && shown.contains("━ now"),
        "{shown}"
    );
    let cut = (ago(10 * MINUTE), Turn::Disconnected);
    screen.read_milestones(vec![(id("t9x4gz"), vec![cut])]);
    let shown = timeline(&mut screen).unwrap();
    assert!(shown.contains("━╍") && shown.contains("╍ now"), "{shown}");
}

#[test]
fn removal_can_be_undone_and_skips_running_tasks() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.todo.clear();
    screen.keys("D");
    assert_eq!(asks(&screen), [], "it runs");
    assert!(screen.draw().contains("press x to cancel"));
    // A task that ignores its cancel can be removed all the same.
    let mut ignored = morning().remove(3);
    ignored.task.attempts.last_mut().unwrap().was_cancelled = true;
    screen.news(ignored).keys("D");
    assert_eq!(asks(&screen), [SessionRequest::Forget(id("q7m2xk"))]);
    screen.go_to("h7r2dd");
    screen.todo.clear();
    screen.keys("D u");
    assert_eq!(
        asks(&screen),
        [
            SessionRequest::Forget(id("h7r2dd")),
            SessionRequest::Unforget(id("h7r2dd"))
        ]
    );
}

/// The newest request fails, because the disk does.
fn refuse_newest(screen: &mut Screen) {
    let newest = screen.todo.iter().rev().find_map(|command| match command {
        Command::Request(ask, _) => Some(*ask),
        _ => None,
    });
    screen.event(Event::Session(SessionEvent::Response {
        request: newest.unwrap(),
        outcome: Err(longhaul::domain::RequestError::CannotSave(
            "disk full".to_owned(),
        )),
    }));
}

#[test]
fn an_undo_that_failed_is_undone_next() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.go_to("h7r2dd").keys("D u");
    refuse_newest(&mut screen);
    screen.todo.clear();
    screen.keys("u");
    assert_eq!(asks(&screen), [SessionRequest::Unforget(id("h7r2dd"))]);
    // A removal that failed leaves nothing to undo.
    screen.keys("D");
    refuse_newest(&mut screen);
    screen.todo.clear();
    screen.keys("u");
    assert_eq!(asks(&screen), []);
}

#[test]
fn restored_tasks_appear_at_once_without_notifications() {
    let mut screen = Screen::morning(WIDE, colour());
    // As if all of it was made while the screen was open.
    screen.state.session.restored_at = Some(Wall(0));
    let settled: Vec<TaskView> = morning()
        .into_iter()
        .filter(|view| view.task.status.is_settled())
        .collect();
    assert!(settled.len() > 1);
    screen.wait(10_000);
    for view in &settled {
        screen.go_to(view.task.id.as_str()).keys("space");
    }
    screen.keys("D");
    for view in &settled {
        screen.event(Event::Session(SessionEvent::Erased(view.task.id.clone())));
    }
    screen.keys("u");
    let messages = screen.state.messages.log.len();
    for view in settled.clone() {
        screen.news(view);
    }
    for view in &settled {
        let row = longhaul::app::ListRow::Task(view.task.id.clone());
        assert!(screen.state.list.rows.contains(&row), "{row:?}");
    }
    assert_eq!(screen.state.messages.log.len(), messages);
}

#[test]
fn a_call_is_checked_priced_and_started_once() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc n enter").answer_tools();
    screen.type_in("forecast").keys("enter");
    screen.todo.clear();
    screen.keys("ctrl-s");
    assert_eq!(asks(&screen), [], "it was sent without its city");
    screen
        .type_in("Lisbon")
        .keys("enter")
        .type_in("weather")
        .keys("ctrl-s ctrl-s");
    let all = asks(&screen);
    let [SessionRequest::Start(call)] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!(call.arguments, r#"{"city":"Lisbon"}"#);
    assert_eq!(call.name.as_deref(), Some("weather"));
    let ask = screen.todo.iter().find_map(|command| match command {
        Command::Request(ask, SessionRequest::Start(_)) => Some(*ask),
        _ => None,
    });
    let started = call.id.clone();
    screen.event(Event::Session(SessionEvent::Response {
        request: ask.unwrap(),
        outcome: Ok(SessionResponse::Started(started.clone())),
    }));
    assert!(screen.state.dialogs.stack.is_empty());
    let mut view = morning().remove(3);
    view.task.id = started.clone();
    news(&mut screen, view);
    assert_eq!(
        screen.state.list.cursor,
        Some(started),
        "the cursor goes to the new task"
    );
}

#[test]
fn a_typed_url_adds_a_server_and_lists_its_tools() {
    let mut screen = Screen::new(WIDE, colour());
    screen
        .keys("a")
        .type_in("http://127.0.0.1:9000/mcp")
        .keys("enter");
    let all = asks(&screen);
    let [SessionRequest::Server(server)] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!(server.name.as_str(), "127.0.0.1:9000");
    screen.event(Event::Session(SessionEvent::Response {
        request: 1,
        outcome: Ok(SessionResponse::Accepted),
    }));
    assert_eq!(
        asks(&screen).last(),
        Some(&SessionRequest::Tools(server.name.clone()))
    );
    screen.answer_tools();
    assert!(screen.draw().contains("get_forecast"));
}

#[test]
fn history_is_asked_once_for_each_time_more_is_on_disk() {
    let mut screen = Screen::new(WIDE, colour());
    let reads = |screen: &Screen| {
        let of = screen.todo.iter().filter_map(|command| match command {
            Command::Read(SavedRead::History { after_seq, .. }) => Some(*after_seq),
            _ => None,
        });
        of.collect::<Vec<_>>()
    };
    news(&mut screen, morning().remove(3));
    news(&mut screen, morning().remove(3));
    assert_eq!(reads(&screen), [0]);
    screen.event(history_read(id("q7m2xk"), history()));
    assert_eq!(reads(&screen), [0]);
    let mut more = morning().remove(3);
    more.saved_seq = 20;
    news(&mut screen, more);
    assert_eq!(reads(&screen), [0, 14]);
    // Nothing came back: it is not asked in a circle.
    screen.event(history_read(id("q7m2xk"), Vec::new()));
    screen.wait(1_000);
    assert_eq!(reads(&screen), [0, 14]);
}

#[test]
fn a_history_read_twice_is_held_once_and_bounded() {
    let mut screen = Screen::new(WIDE, colour());
    news(&mut screen, morning().remove(3));
    let entry = |seq: u64| HistoryEntry {
        seq,
        at: Wall(NOW),
        attempt: 1,
        event_id: None,
        what: HistoryEvent::Log {
            level: LogLevel::Info,
            logger: None,
            data: "x".to_owned(),
        },
    };
    for _ in 0..2 {
        screen.event(history_read(id("q7m2xk"), (1..=3_000).map(entry).collect()));
    }
    let log = &screen.state.detail.logs[&id("q7m2xk")];
    assert_eq!((log.entries.len(), log.dropped), (2_000, 1_000));
    screen.keys("enter ] g");
    assert!(screen.draw().contains("1,000 older lines are not shown"));
}

fn error_logged(data: String) -> HistoryEntry {
    HistoryEntry {
        seq: 1,
        at: Wall(NOW),
        attempt: 1,
        event_id: None,
        what: HistoryEvent::Log {
            level: LogLevel::Error,
            logger: None,
            data,
        },
    }
}

#[test]
fn the_log_shows_a_message_on_the_lines_that_the_server_made() {
    let mut screen = Screen::new(WIDE, colour());
    news(&mut screen, morning().remove(3));
    let entry = error_logged("Traceback:\n\tFile \"a.py\"\nValueError: no\n".to_owned());
    screen.event(history_read(id("q7m2xk"), vec![entry]));
    screen.keys("enter ]");
    let drawn = screen.draw();
    let mut lines = drawn
        .lines()
        .skip_while(|line| !line.contains("Traceback:"))
        .skip(1);
    assert!(
        lines.next().unwrap().contains("    File \"a.py\""),
        "{drawn}"
    );
    assert!(lines.next().unwrap().contains("ValueError: no"), "{drawn}");
}

#[test]
fn a_log_line_taller_than_the_pane_shows_its_beginning() {
    let mut screen = Screen::new(WIDE, colour());
    news(&mut screen, morning().remove(3));
    let entry = error_logged(format!("begin {} end", "row ".repeat(2000)));
    screen.event(history_read(id("q7m2xk"), vec![entry]));
    screen.keys("enter ] w");
    let drawn = screen.draw();
    assert!(drawn.contains("begin row row"), "{drawn}");
    assert!(drawn.contains("more rows in this line"), "{drawn}");
}

#[test]
fn keeps_the_newest_messages_and_counts_the_dropped_ones() {
    let mut screen = Screen::new(WIDE, colour());
    for number in 0..1_500 {
        screen.event(Event::Session(SessionEvent::Notice(Notice {
            at: Wall(NOW),
            level: NoticeLevel::Info,
            text: format!("message {number}"),
        })));
    }
    let (held, dropped) = (
        screen.state.messages.log.len(),
        screen.state.messages.dropped,
    );
    assert_eq!((held, dropped), (1_000, 500));
    assert_eq!(screen.state.messages.toasts.len(), 3);
}

#[test]
fn shows_only_the_size_of_huge_arguments() {
    let mut screen = Screen::new(WIDE, colour());
    let mut view = morning().remove(3);
    view.task.arguments = format!(r#"{{"book":"{}"}}"#, "x".repeat(300_000));
    news(&mut screen, view);
    screen.keys("enter ] ] ]");
    let drawn = screen.draw();
    assert!(
        drawn.contains("300.0 kB) are too large for this pane"),
        "{drawn}"
    );
}

#[test]
fn reading_back_in_the_log_is_not_disturbed_by_new_lines() {
    let mut screen = Screen::morning(SMALL, colour());
    screen.keys("esc z ] k k k k k k k k k");
    assert!(!screen.state.detail.is_following);
    // The first line is on the first row, and further keys do not count up in secret.
    assert_eq!(screen.state.detail.scroll, history().len() - 8);
    assert!(screen.draw().contains("call sent (MCP"));
    let before = screen.state.detail.scroll;
    let mut entry = history().remove(13);
    entry.seq = 15;
    screen.event(history_read(id("q7m2xk"), vec![entry]));
    assert_eq!(screen.state.detail.scroll, before + 1);
    screen.keys("F");
    assert_eq!(screen.state.detail.scroll, 0);
}

#[test]
fn pasted_text_is_never_keys() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.todo.clear();
    screen.type_in("qxyD\u{3}\ny");
    assert!(screen.state.exit.note.is_none());
    assert_eq!(asks(&screen), []);
    // Some scripts need letters without a shape.
    screen.keys("/").type_in("two\nlines\u{1b}[31m\u{200c}");
    let Some(Overlay::Filter(field)) = screen.state.dialogs.stack.last() else {
        panic!();
    };
    assert!(field.text().starts_with("two lines"));
    assert!(!field.text().contains('\u{1b}') && field.text().ends_with('\u{200c}'));
}

#[test]
fn a_text_that_does_not_fit_is_refused_whole() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("/").type_in(&"a".repeat(200_000));
    screen.type_in(&"b".repeat(100_000));
    let Some(Overlay::Filter(field)) = screen.state.dialogs.stack.last() else {
        panic!();
    };
    assert_eq!(field.text().len(), 200_000);
    assert!(
        answer(&screen).contains("not pasted"),
        "{}",
        answer(&screen)
    );
}

#[test]
fn a_task_found_by_a_filter_stays_selected_without_it() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc").go_to("q7m2xk");
    screen.keys("/").type_in("lint").keys("enter");
    assert_eq!(screen.state.list.cursor, Some(id("h7r2dd")));
    screen.keys("esc");
    assert_eq!(screen.state.list.cursor, Some(id("h7r2dd")));
    // Not if the user gives up.
    screen.go_to("q7m2xk");
    screen.keys("/").type_in("lint").keys("esc");
    assert_eq!(screen.state.list.cursor, Some(id("q7m2xk")));
}

#[test]
fn pasted_lines_in_a_question_cover_no_other_field() {
    const TWO_FIELDS: &str = r#"{"message":"Where?","requestedSchema":{"type":"object","properties":{
        "city":{"type":"string"},"count":{"type":"integer","default":3}}}}"#;
    let mut screen = Screen::asked(WIDE, colour(), &[TWO_FIELDS]);
    screen.keys("tab").type_in("one\ntwo\nthree");
    let shown = screen.draw();
    let row_of = |words: &str| shown.lines().position(|row| row.contains(words));
    let [city, count] = ["city", "count"].map(|name| row_of(name).unwrap());
    assert_eq!(count, city + 3, "{shown}");
    assert!(shown.lines().nth(count).unwrap().contains(" 3 "), "{shown}");
}

#[test]
fn never_shows_100_percent_before_the_response() {
    let mut screen = Screen::new(WIDE, colour());
    let mut view = morning().remove(3);
    view.task.progress = progress(50.0, Some(50.0), None);
    news(&mut screen, view);
    assert!(screen.draw().contains(" 99%"));
    assert!(!screen.draw().contains("100%"));
}

#[test]
fn the_screen_wakes_only_for_what_changes() {
    let mut screen = Screen::new(WIDE, colour());
    let wait = |screen: &Screen| {
        next_wake(&screen.state, screen.now).map(|wake| wake.since(screen.now.mono).as_millis())
    };
    // Nothing but the date can change, at the full hour; without a tick there is no clock.
    screen.now = at(15_000);
    screen.wait(0);
    assert_eq!(wait(&screen), Some(465_000));
    assert!(!screen.draw().contains("06:52"));
    news(&mut screen, morning().remove(3));
    assert_eq!(wait(&screen), Some(1_000));
    assert!(screen.draw().contains("Fri 06:52"));
    let moving = morning().remove(6);
    news(&mut screen, moving);
    assert!(wait(&screen).unwrap() <= 250);
    screen.event(Event::Input(UserInput::FocusLost));
    assert_eq!(wait(&screen), Some(1_000));
    screen.event(Event::Input(UserInput::FocusGained));
    screen.state.setup.look.no_motion = true;
    assert_eq!(wait(&screen), Some(1_000));
    screen.keys("Z");
    assert_eq!(wait(&screen), None);
}

#[test]
fn sorting_says_whether_it_is_reversed() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc S");
    assert!(
        answer(&screen).ends_with(", reversed"),
        "{}",
        answer(&screen)
    );
    screen.keys("s");
    assert!(
        answer(&screen).ends_with(", reversed"),
        "{}",
        answer(&screen)
    );
    screen.keys("S");
    assert!(!answer(&screen).contains("reversed"), "{}", answer(&screen));
}

#[test]
fn esc_returns_from_the_tools_of_a_server_to_the_servers() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc 3 enter esc");
    assert_eq!(screen.state.pane, Pane::Servers);
    screen.keys("2 esc");
    assert_eq!(screen.state.pane, Pane::Tasks);
}

#[test]
fn a_search_ends_with_its_text() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc").go_to("q7m2xk");
    screen.keys("enter ] /").type_in("e").keys("enter");
    assert!(screen.state.detail.search.is_some());
    screen.keys("]");
    assert_eq!(screen.state.detail.search, None);
}

#[test]
fn a_frozen_display_applies_updates_when_it_resumes() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc Z");
    let mut view = morning().remove(3);
    news(&mut screen, view.clone());
    assert!(screen.draw().contains("0 tasks changed"), "a sign of life");
    view.task.progress = progress(45.0, Some(50.0), None);
    view.task.updated_at = Wall(screen.now.wall.0 + 1);
    news(&mut screen, view);
    assert!(screen.draw().contains("30/50"));
    assert!(screen.draw().contains("1 task changed"));
    assert!(screen.draw().contains("FROZEN"));
    screen.keys("Z");
    assert!(screen.draw().contains("45/50"));
}

#[test]
fn the_banner_reports_what_happened_and_closes() {
    let mut screen = Screen::morning(WIDE, colour());
    assert!(
        screen
            .draw()
            .contains("While you were away (6 h 21 min): 1 question, 1 failed, 1 completed")
    );
    screen.keys("esc");
    assert!(!screen.draw().contains("While you were away"));
}

#[test]
fn a_jump_of_the_wall_clock_is_sleep_and_gets_a_banner() {
    let mut screen = Screen::new(WIDE, colour());
    news(&mut screen, morning().remove(3));
    screen.now.wall = Wall(screen.now.wall.0 + 3 * HOUR);
    screen.event(Event::Tick);
    assert!(
        screen
            .draw()
            .contains("While you were away (3 h 0 min, computer asleep 06:52-09:52)")
    );
}

#[test]
fn restored_rows_are_marked_unconfirmed() {
    let mut screen = Screen::new(WIDE, colour());
    let mut view = morning().remove(3);
    view.contact = Connectivity::Unwatched { as_of: ago(5_000) };
    screen.event(Event::Restored {
        watched_at: None,
        views: vec![Arc::new(view)],
        servers: servers(),
        saved_at: Some(ago(5_000)),
    });
    assert!(screen.draw().contains("running?"));
    assert!(screen.draw().contains("Saved at 06:51:55."));
    let mut view = morning().remove(3);
    view.contact = Connectivity::NeedsLogin;
    news(&mut screen, view);
    assert!(!screen.draw().contains("running?"));
    assert!(!screen.draw().contains("Saved at"));
    // The first report may move even the row under the cursor.
    let task_row = screen.state.tasks.get(&id("q7m2xk")).unwrap();
    assert_eq!(task_row.listed_group, Group::NeedsYou);
}

#[test]
fn welcomes_back_although_a_keeper_saved_meanwhile() {
    let mut screen = Screen::new(WIDE, colour());
    let view = task("q7m2xk", "lab", "quick", "{}", 5 * HOUR);
    screen.event(Event::Restored {
        views: vec![Arc::new(settled(view, Status::Completed, HOUR))],
        servers: servers(),
        saved_at: Some(ago(1_000)),
        watched_at: Some(ago(2 * HOUR)),
    });
    let drawn = screen.draw();
    assert!(
        drawn.contains("While you were away (2 h 0 min): 1 completed"),
        "{drawn}"
    );
}

#[test]
fn reports_the_end_of_a_task_never_seen_running() {
    for (age, is_told) in [(0, true), (60_000, false)] {
        let mut screen = Screen::new(WIDE, colour());
        screen.event(Event::Restored {
            watched_at: None,
            views: Vec::new(),
            servers: servers(),
            saved_at: None,
        });
        let view = task("q7m2xk", "lab", "quick", "{}", age);
        news(&mut screen, settled(view, Status::Cancelled, 0));
        let is_said = screen.draw().contains("quick was cancelled");
        assert_eq!(is_said, is_told, "{}", screen.draw());
    }
}

#[test]
fn the_row_counts_down_to_the_next_try() {
    let mut screen = Screen::morning(WIDE, colour());
    assert!(screen.draw().contains("retry 4s"));
    screen.wait(1_000);
    assert!(screen.draw().contains("retry 3s"));
    screen.wait(5_000);
    assert!(screen.draw().contains("retrying"));
}

#[test]
fn copying_goes_to_the_terminal_and_the_result_is_read_for_it() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.go_to("c5b8yp");
    screen.todo.clear();
    screen.keys("y");
    assert_eq!(
        screen.todo,
        [Command::Read(SavedRead::Result(id("c5b8yp")))]
    );
    screen.event(result_read(
        id("c5b8yp"),
        r#"{"content":[{"type":"text","text":"Sunny\u001b]52;c;x\u0007"}]}"#,
    ));
    screen.keys("r");
    assert_eq!(
        screen.todo.last(),
        Some(&Command::Terminal(TerminalCommand::Copy(
            "Sunny\u{FFFD}]52;c;x\u{FFFD}".to_owned()
        )))
    );
}

#[test]
fn reads_recorded_traffic_while_its_tab_is_open() {
    let mut screen = Screen::morning(WIDE, colour());
    let (task, server) = (id("q7m2xk"), ServerName::new("build-box"));
    let read = Command::Read(SavedRead::Traffic {
        task: task.clone(),
        server: server.clone(),
    });
    let reads = |screen: &Screen| screen.todo.iter().filter(|it| **it == read).count();
    screen.keys("enter ] ] ]");
    assert_eq!(reads(&screen), 0, "nobody looks at it");
    screen.keys("]");
    assert_eq!((screen.state.detail.tab, reads(&screen)), (Tab::Trace, 1));
    assert!(screen.draw().contains("traffic: loading"));
    // It moves while the read is under way, and is read once more after that.
    let mut view = morning().remove(3);
    assert_eq!(view.task.id, task);
    (view.task.seq, view.saved_seq) = (15, 15);
    screen.event(Event::Session(SessionEvent::Task(Arc::new(view))));
    assert_eq!(reads(&screen), 1);
    let entries = Vec::new();
    screen.event(traffic_read(task.clone(), entries));
    assert_eq!(reads(&screen), 2);
    assert!(screen.draw().contains(":trace starts and stops recording"));
    let entries = recorded("build-box", "q7m2xk");
    screen.event(traffic_read(task.clone(), entries));
    assert_eq!(reads(&screen), 2);
    let picture = screen.draw();
    assert!(picture.contains("> 12 POST /mcp"), "{picture}");

    screen.keys("/").type_in("end: CONNECTION").keys("enter");
    assert_eq!(answer(&screen), "1 matching line");

    screen.todo.clear();
    screen.keys("esc :").type_in("trace").keys("enter");
    let ask = SessionRequest::Trace {
        server: Some(server),
        is_on: None,
    };
    assert_eq!(asks(&screen), [ask]);
    screen.keys("[");
    assert_eq!(screen.state.detail.traffic, None, "nothing is kept of it");
}

#[test]
fn typed_commands_run_by_name() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.todo.clear();
    screen.keys(":").type_in("pause").keys("enter");
    assert_eq!(asks(&screen), [SessionRequest::Pause(id("q7m2xk"))]);
    screen.keys(":").type_in("filter status:lost").keys("enter");
    assert_eq!(screen.state.list.filter.text(), "status:lost");
    screen.keys("esc esc :").type_in("attach t9").keys("enter");
    assert_eq!(screen.state.list.cursor, Some(id("t9x4gz")));
    screen.keys(":").type_in("no such word").keys("enter");
    assert!(answer(&screen).contains("not a screen command"));
    screen.keys("ctrl-u").type_in("servers add x").keys("enter");
    assert_eq!(answer(&screen), "`servers` takes no arguments here");
    // What only a description has is run once it is selected.
    screen.keys("ctrl-u").type_in("demo").keys("enter");
    assert!(answer(&screen).contains("press Down to select"));
    screen.keys("down enter");
    assert!(screen.state.dialogs.stack.is_empty());
}

#[test]
fn typed_commands_act_on_named_tasks_or_explain_why_not() {
    let typed = |line: &str| {
        let mut screen = Screen::morning(WIDE, colour());
        screen.go_to("m2hn5t").keys("space").go_to("q7m2xk");
        screen.todo.clear();
        screen.keys("3 :").type_in(line).keys("enter");
        screen
    };
    let top = |screen: &Screen| match screen.state.dialogs.stack.last() {
        Some(Overlay::Menu { menu, .. }) => format!("{menu:?}"),
        Some(Overlay::Question(form)) => format!("asks {}", form.task),
        Some(Overlay::Call(form)) => format!("{:?} {:?}", form.origin, form.name.text()),
        other => format!("{other:?}"),
    };
    assert_eq!(
        asks(&typed("pause pd6")),
        [SessionRequest::Pause(id("pd6xw8"))]
    );
    assert_eq!(
        asks(&typed("resume m2")),
        [SessionRequest::Resume(id("m2hn5t"))]
    );
    assert_eq!(
        asks(&typed("rm c5")),
        [SessionRequest::Forget(id("c5b8yp"))]
    );
    let forgotten = ["c5b8yp", "h7r2dd"].map(|name| SessionRequest::Forget(id(name)));
    assert_eq!(asks(&typed("rm c5 h7")), forgotten);
    assert_eq!(top(&typed("cancel t9")), "Cancel([TaskId(\"t9x4gz\")])");
    assert!(top(&typed("cancel --all")).contains("pd6xw8"));
    assert_eq!(top(&typed("answer k3")), "asks k3v9ra");
    assert!(top(&typed("again c5 city=Faro")).contains("c5b8yp"));
    for (line, task, tab) in [
        ("result c5", "c5b8yp", Tab::Result),
        ("logs m2", "m2hn5t", Tab::Log),
    ] {
        let screen = typed(line);
        assert_eq!(screen.state.list.cursor, Some(id(task)));
        assert_eq!(
            (screen.state.pane, screen.state.detail.tab),
            (Pane::Tasks, tab)
        );
        assert!(screen.state.detail.is_zoomed);
    }
    assert_eq!(typed("watch pd").state.list.cursor, Some(id("pd6xw8")));
    assert_eq!(
        typed("tools -s ci").state.tools_pane.server,
        Some(ServerName::new("ci"))
    );
    for (line, words) in [
        (
            "cancel zz",
            "no task id starts with zz; press 1 for the list",
        ),
        (
            "pause k3",
            "k3v9ra is waiting for an answer; nothing to pause",
        ),
        (
            "cancel c5",
            "c5b8yp has ended (completed); nothing to cancel",
        ),
        (
            "tools nowhere",
            "no server named \"nowhere\"; known servers: build-box, lab, ci",
        ),
    ] {
        let screen = typed(line);
        assert_eq!(answer(&screen), words);
        assert_eq!(
            screen.state.list.marks.len(),
            1,
            "what is marked is left alone"
        );
    }
}

#[test]
fn a_typed_call_opens_its_form_filled_in() {
    let form = |screen: &Screen| match screen.state.dialogs.stack.last() {
        Some(Overlay::Call(form)) => (**form).clone(),
        other => panic!("{other:?}"),
    };
    let line = "call -s ci resumable_data_processing dataset_name='eu 1' total_records=7 verbose=yes --name film";
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys(":").type_in(line).keys("enter");
    // Its tools are not known yet: what is typed waits for them.
    assert_eq!(form(&screen).tool, None);
    screen.answer_tools();
    let filled = form(&screen);
    assert_eq!(filled.server, Some(ServerName::new("ci")));
    assert_eq!(filled.name.text(), "film");
    screen.todo.clear();
    screen.keys("ctrl-s");
    let all = asks(&screen);
    let [SessionRequest::Start(call)] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!(
        call.arguments,
        r#"{"dataset_name":"eu 1","total_records":7,"batch_size":10,"speed":"slow","verbose":true}"#
    );
    // Where they cannot be known, nothing of it is lost, and it is said that nobody checks it.
    let mut screen = Screen::morning(WIDE, colour());
    screen
        .keys(":")
        .type_in("call -s ci train epochs:=3 model=a")
        .keys("enter")
        .refuse_tools("ci requires credentials");
    let drawn = screen.draw();
    assert!(
        drawn.contains(
            "can't check the arguments: the tools of ci are unknown: ci requires credentials"
        ),
        "{drawn}"
    );
    screen.todo.clear();
    screen.keys("ctrl-s");
    let all = asks(&screen);
    let [SessionRequest::Start(call)] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!(call.arguments, r#"{"epochs":3,"model":"a"}"#);
    // What does not fit stays in its field, in place of a default that nobody asked for.
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("2").answer_tools().keys("1 :");
    screen
        .type_in("call resumable_data_processing dataset_name=eu total_records=many")
        .keys("enter");
    screen.todo.clear();
    screen.keys("ctrl-s");
    assert_eq!(asks(&screen), []);
    assert!(screen.draw().contains("many"), "{}", screen.draw());
    // Now they are known; what does not fit is said.
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("2").answer_tools().keys("1 :");
    screen
        .type_in("call get_forecast city=Faro wind=3")
        .keys("enter");
    assert_eq!(
        form(&screen).errors,
        ["wind is not an argument of this tool"]
    );
    assert!(screen.draw().contains("Faro"));
    // What is no tool narrows the choice down, and what is filled in is kept for the one that is taken.
    screen
        .keys("esc esc esc :")
        .type_in("call fore city=Faro")
        .keys("enter");
    assert_eq!(form(&screen).filter.text(), "fore");
    screen.keys("enter");
    assert!(screen.draw().contains("Faro"));
    for (line, words) in [
        (
            "call -s nowhere get_forecast",
            "no server named \"nowhere\"; known servers: build-box, lab, ci",
        ),
        (
            "call t --once x",
            "--once is not supported here; use -s, --name and key=value",
        ),
    ] {
        let mut screen = Screen::morning(WIDE, colour());
        screen.keys(":").type_in(line).keys("enter");
        assert_eq!(answer(&screen), words);
    }
}

#[test]
fn esc_goes_back_layer_by_layer_and_never_out() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("3 esc");
    assert_eq!(screen.state.pane, Pane::Tasks);
    screen.keys("enter");
    assert_eq!(
        (screen.state.detail.focus, screen.state.detail.is_zoomed),
        (Focus::Detail, true)
    );
    for _ in 0..20 {
        screen.keys("esc");
    }
    assert_eq!(screen.state.detail.focus, Focus::List);
    assert!(screen.state.exit.note.is_none());
    assert!(answer(&screen).contains("press q to quit"));
}

#[test]
fn enter_on_a_failed_task_shows_its_error() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.go_to("8fw2mc");
    screen.todo.clear();
    screen.keys("enter");
    assert_eq!(screen.state.detail.tab, Tab::Result);
    assert!(screen.draw().contains("see the console"));
}

#[test]
fn arguments_without_measure_are_not_laid_out() {
    let mut screen = Screen::morning(WIDE, colour());
    let mut view = morning().remove(3);
    let id = view.task.id.to_string();
    view.task.arguments = format!(r#"{{"x":"{}"}}"#, "x".repeat(300_000));
    news(&mut screen, view);
    screen.go_to(&id);
    screen.keys("enter");
    while screen.state.detail.tab != Tab::Arguments {
        screen.keys("]");
    }
    let drawn = screen.draw();
    assert!(drawn.contains("are too large for this pane"), "{drawn}");
}

/// A running task asks a question.
fn rings_for_a_question(screen: &mut Screen) {
    screen.todo.clear();
    let mut view = morning().remove(3);
    view.task.status = Status::InputRequired;
    news(screen, view);
    screen.wait(2_000);
    assert!(
        screen
            .todo
            .contains(&Command::Terminal(TerminalCommand::Bell))
    );
}

#[test]
fn the_bell_rings_when_a_task_needs_attention() {
    let mut screen = Screen::morning(WIDE, colour());
    rings_for_a_question(&mut screen);
}

#[test]
fn the_bell_rings_when_a_call_needs_a_sign_in() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.todo.clear();
    let mut view = morning().remove(3);
    view.contact = Connectivity::NeedsLogin;
    news(&mut screen, view.clone());
    screen.wait(2_000);
    assert!(
        screen
            .todo
            .contains(&Command::Terminal(TerminalCommand::Bell))
    );
    // Once, not with each update.
    screen.todo.clear();
    view.task.seq += 1;
    news(&mut screen, view);
    screen.wait(5_000);
    assert!(
        !screen
            .todo
            .contains(&Command::Terminal(TerminalCommand::Bell))
    );
}

#[test]
fn the_bell_rings_while_the_display_is_frozen() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc Z");
    rings_for_a_question(&mut screen);
    // Not again when the display resumes.
    screen.todo.clear();
    screen.keys("Z").wait(5_000);
    assert!(
        !screen
            .todo
            .contains(&Command::Terminal(TerminalCommand::Bell))
    );
}

/// The words of the notifications so far.
fn notified(screen: &Screen) -> Vec<&str> {
    screen
        .todo
        .iter()
        .filter_map(|command| match command {
            Command::Terminal(TerminalCommand::Notify(words)) => Some(words.as_str()),
            _ => None,
        })
        .collect()
}

#[test]
fn groups_notifications_of_ends_while_unfocused() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.event(Event::Input(UserInput::FocusLost));
    screen.wait(5_000);
    screen.todo.clear();
    let running: Vec<TaskView> = morning()
        .into_iter()
        .filter(|view| view.task.status == Status::Running)
        .collect();
    let ended = |place: usize, status: Status| {
        let mut view = running[place].clone();
        view.task.status = status;
        view
    };
    screen.news(ended(0, Status::Completed));
    assert_eq!(notified(&screen).len(), 1);
    assert!(
        screen
            .todo
            .contains(&Command::Terminal(TerminalCommand::Bell))
    );
    screen.todo.clear();
    // Too close to it: these wait, and the one that needs a person gives the words.
    screen.news(ended(1, Status::Completed));
    screen.news(ended(2, Status::Failed));
    assert_eq!(notified(&screen), [""; 0]);
    assert!(next_wake(&screen.state, screen.now).is_some());
    screen.wait(2_000);
    let words = notified(&screen);
    let [words] = words.as_slice() else {
        panic!("{words:?}");
    };
    assert!(
        words.contains("failed") && words.ends_with("(and 1 more)"),
        "{words}"
    );
}

#[test]
fn sends_no_notification_while_focused() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.event(Event::Input(UserInput::FocusGained));
    screen.todo.clear();
    let mut view = morning().remove(3);
    view.task.status = Status::Completed;
    screen.news(view).wait(2_000);
    assert!(
        !screen
            .todo
            .contains(&Command::Terminal(TerminalCommand::Bell))
    );
    assert_eq!(notified(&screen), [""; 0]);
}

#[test]
fn treats_the_user_as_away_without_focus_after_a_minute() {
    for (waited, is_told) in [(30_000, false), (90_000, true)] {
        let mut screen = Screen::morning(WIDE, colour());
        screen.keys("j").wait(waited);
        screen.todo.clear();
        let mut view = morning().remove(3);
        view.task.status = Status::Completed;
        screen.news(view).wait(300);
        assert_eq!(
            screen
                .todo
                .contains(&Command::Terminal(TerminalCommand::Bell)),
            is_told,
            "{waited}"
        );
        assert_eq!(!notified(&screen).is_empty(), is_told, "{waited}");
    }
}

#[test]
fn respects_disabled_notifications() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.event(Event::Input(UserInput::FocusLost));
    screen.state.setup.settings.notify = NotifyConfig {
        bell: NotifyLevel::NeedsYou,
        desktop: NotifyLevel::Off,
        no_title: true,
        ..NotifyConfig::default()
    };
    screen.todo.clear();
    let mut view = morning().remove(3);
    view.task.status = Status::Completed;
    screen.news(view).wait(2_000);
    let beside = |command: &Command| {
        matches!(
            command,
            Command::Terminal(
                TerminalCommand::Bell | TerminalCommand::Notify(_) | TerminalCommand::SetTitle(_)
            )
        )
    };
    assert!(!screen.todo.iter().any(beside), "{:?}", screen.todo);
    let mut view = morning().remove(4);
    view.task.status = Status::InputRequired;
    screen.news(view);
    screen.wait(2_000);
    assert!(
        screen
            .todo
            .contains(&Command::Terminal(TerminalCommand::Bell))
    );
    assert_eq!(notified(&screen), [""; 0]);
}

#[test]
fn the_taskbar_shows_the_mean_of_what_runs_at_a_gentle_pace() {
    let mut screen = Screen::new(WIDE, colour());
    let shown = |screen: &Screen| -> Vec<OverallProgress> {
        let overall = |command: &Command| match command {
            Command::Terminal(TerminalCommand::Progress(overall)) => Some(*overall),
            _ => None,
        };
        screen.todo.iter().filter_map(overall).collect()
    };
    let mut view = morning()
        .into_iter()
        .find(|view| view.task.status == Status::Running)
        .unwrap();
    view.task.progress = None;
    screen.news(view.clone());
    assert_eq!(shown(&screen), [OverallProgress::Busy]);
    let at = |value| {
        Some(Progress {
            value,
            total: Some(100.0),
            message: None,
        })
    };
    for value in [10.0, 20.0, 30.0] {
        view.task.progress = at(value);
        screen.news(view.clone());
    }
    assert_eq!(shown(&screen).len(), 1);
    screen.wait(1_000);
    assert_eq!(
        shown(&screen),
        [OverallProgress::Busy, OverallProgress::Percent(30)]
    );
    view.task.status = Status::Completed;
    screen.news(view);
    assert_eq!(shown(&screen).last(), Some(&OverallProgress::None));
}

#[test]
fn toasts_stack_to_three_and_errors_stay_longer() {
    let mut screen = Screen::new(WIDE, colour());
    for words in ["one", "two", "three"] {
        screen.event(Event::Succeeded(words.to_owned()));
    }
    screen.event(Event::Failed("it broke".to_owned()));
    assert_eq!(screen.state.messages.toasts.len(), 3);
    screen.wait(4_000);
    let left: Vec<&str> = screen
        .state
        .messages
        .toasts
        .iter()
        .map(|toast| toast.text.as_str())
        .collect();
    assert_eq!(left, ["it broke"]);
    screen.wait(4_000);
    assert!(screen.state.messages.toasts.is_empty());
    assert_eq!(screen.state.messages.log.len(), 4);
}

#[test]
fn an_ended_task_left_on_screen_counts_as_seen() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.todo.clear();
    screen.keys("ctrl-c ctrl-c");
    assert_eq!(asks(&screen), [SessionRequest::Seen(id("c5b8yp"))]);
}

#[test]
fn a_task_that_is_erased_takes_its_dialog_with_it() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("e");
    screen.event(Event::Session(SessionEvent::Erased(id("q7m2xk"))));
    assert!(screen.state.dialogs.stack.is_empty());
    assert!(screen.state.list.cursor.is_some());
}

#[test]
fn one_turn_with_a_hundred_thousand_tasks_stays_cheap() {
    // Not a benchmark: a frame that built every row would take minutes here.
    let mut screen = Screen::new(WIDE, colour());
    let one = morning().remove(3);
    let views = (0..100_000_u64)
        .map(|number| {
            let mut view = one.clone();
            view.task.id = longhaul::domain::TaskId::from_bits(number);
            Arc::new(view)
        })
        .collect();
    screen.event(Event::Restored {
        watched_at: None,
        views,
        servers: servers(),
        saved_at: None,
    });
    for _ in 0..50 {
        screen.draw();
    }
    assert!(screen.state.list.rows.len() > 100_000);
}

#[test]
fn shows_why_a_request_was_refused() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.todo.clear();
    screen.keys("p");
    let Some(Command::Request(ask, _)) = screen.todo.first().cloned() else {
        panic!();
    };
    screen.event(Event::Session(SessionEvent::Response {
        request: ask,
        outcome: Err(longhaul::domain::RequestError::Usage(
            "Not paused: lab has no pause tool; the call keeps running".to_owned(),
        )),
    }));
    assert!(screen.draw().contains("lab has no pause tool"));
}

#[test]
fn the_reply_to_a_key_expires_or_yields_to_an_error() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.todo.clear();
    screen.keys("p");
    assert_eq!(answer(&screen), "pause requested for q7m2xk");
    assert!(next_wake(&screen.state, screen.now).is_some());
    screen.wait(5_000);
    assert_eq!(answer(&screen), "");
    screen.todo.clear();
    screen.keys("p");
    let Some(Command::Request(ask, _)) = screen.todo.first().cloned() else {
        panic!();
    };
    let words = "Not paused: lab has no pause tool; the call keeps running";
    screen.event(Event::Session(SessionEvent::Response {
        request: ask,
        outcome: Err(longhaul::domain::RequestError::Usage(words.to_owned())),
    }));
    assert_eq!(answer(&screen), words);
    assert_eq!(screen.state.messages.log.back().unwrap().text, words);
}

#[test]
fn the_strip_of_the_demo_comes_back_after_every_remark() {
    let mut screen = Screen::new(WIDE, colour());
    screen.state.setup.is_demo = true;
    let mut view = morning().remove(4);
    news(&mut screen, view.clone());
    assert!(screen.draw().contains("try #2 in 4 s (r to retry now)"));
    view.contact = Connectivity::Live { last_byte: ago(0) };
    view.task.notice = Some("reconnected after 2.1 s".to_owned());
    news(&mut screen, view.clone());
    assert!(
        screen
            .draw()
            .contains("render_movie: reconnected after 2.1 s")
    );
    screen.wait(6_000);
    assert!(!screen.draw().contains("render_movie: reconnected after"));
    assert!(screen.draw().contains("try: b, then c to cut the network"));
    view.task.notice = Some("the server said no".to_owned());
    news(&mut screen, view.clone());
    assert!(screen.draw().contains("render_movie: the server said no"));
    news(&mut screen, settled(view, Status::Failed, 0));
    assert!(!screen.draw().contains("render_movie: the server said no"));
    assert!(
        screen
            .draw()
            .contains("try: n new call, R run again, b inject a fault")
    );
}

#[test]
fn steps_that_come_in_a_burst_after_a_break_make_no_rate() {
    let mut screen = Screen::new(WIDE, colour());
    let mut view = morning().remove(3);
    view.contact = Connectivity::Unwatched { as_of: ago(0) };
    news(&mut screen, view.clone());
    view.contact = Connectivity::Live { last_byte: ago(0) };
    for value in 31..49 {
        view.task.progress = progress(f64::from(value), Some(50.0), None);
        screen.wait(1);
        news(&mut screen, view.clone());
    }
    let task_row = screen.state.tasks.get(&id("q7m2xk")).unwrap();
    assert_eq!(task_row.pace.rate(screen.now), None);
    // Another attempt starts over too.
    for value in [48.2, 48.4, 48.6, 48.8] {
        view.task.progress = progress(value, Some(50.0), None);
        screen.wait(1_000);
        news(&mut screen, view.clone());
    }
    let task_row = screen.state.tasks.get(&id("q7m2xk")).unwrap();
    assert!(task_row.pace.rate(screen.now).unwrap() < 1.0);
    view.task.attempts[0].number = 2;
    view.task.progress = progress(49.0, Some(50.0), None);
    news(&mut screen, view);
    let task_row = screen.state.tasks.get(&id("q7m2xk")).unwrap();
    assert_eq!(task_row.pace.rate(screen.now), None);
}

#[test]
fn an_unknown_task_shows_no_leave_impact() {
    let mut unknown = morning().remove(6);
    unknown.task.status = Status::Unknown(longhaul::domain::UnknownReason::NoIds);
    assert_eq!(IfCut::of_task(&unknown.task), None);
    // An older driver may still say so.
    let mut screen = Screen::new(WIDE, colour());
    screen.state.setup.is_demo = true;
    news(&mut screen, unknown);
    news(&mut screen, morning().remove(4));
    assert!(!screen.draw().contains("LOST"));
    screen.keys("q").wait(500);
    let drawn = screen.draw();
    assert!(drawn.contains("quit: 1 likely resumable until"));
    assert!(!drawn.contains("LOST"), "{drawn}");
}

#[test]
fn counts_the_calls_that_are_resumable_for_a_limited_time() {
    let mut screen = Screen::new(WIDE, colour());
    screen.state.setup.is_demo = true;
    let minute = |at: i64| Some(Wall(NOW + at * MINUTE));
    for (name, until, words) in [
        (
            "aaaaa1",
            minute(28),
            "1 likely resumable until about Fri 07:20",
        ),
        (
            "aaaaa2",
            minute(28),
            "2 likely resumable until about Fri 07:20",
        ),
        (
            "aaaaa3",
            minute(40),
            "3 likely resumable until about Fri 07:20 or later",
        ),
        (
            "aaaaa4",
            None,
            "4 likely resumable (3 until about Fri 07:20 or later)",
        ),
    ] {
        let mut view = morning().remove(4);
        view.task.id = id(name);
        view.if_cut.as_mut().unwrap().until = until;
        news(&mut screen, view);
        let drawn = screen.draw();
        assert!(drawn.contains(&format!("quit: {words}")), "{drawn}");
    }
}

#[test]
fn does_not_assume_a_dead_driver_continues() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.event(Event::Session(SessionEvent::Driver(SessionDriver {
        pid: 77,
        is_us: false,
        is_keeper: false,
        since: Wall(0),
    })));
    screen.event(Event::Session(SessionEvent::Undriven));
    assert!(!screen.draw().contains("process 77 drives"));
    screen.keys("q");
    assert!(screen.state.exit.note.is_none());
    assert!(screen.draw().contains("LOST      pd6xw8"));
}

#[test]
fn headings_count_the_rows_below_them() {
    let mut screen = Screen::morning(WIDE, colour());
    assert!(screen.draw().contains(" RUNNING 4 "));
    // Under the cursor, and within a second of a key: the row stays, and is counted where it is.
    screen.keys("k j").wait(400);
    let ended = settled(morning().remove(3), Status::Completed, 0);
    news(&mut screen, ended);
    let drawn = screen.draw();
    assert!(drawn.contains(" 3 running  3 finished"), "{drawn}");
    assert!(drawn.contains(" RUNNING 4 "), "{drawn}");
    assert!(drawn.contains(" FINISHED 2, 1 new   (."), "{drawn}");
    screen.wait(2_000).keys("k").wait(2_000);
    let drawn = screen.draw();
    assert!(drawn.contains(" RUNNING 3 "), "{drawn}");
    assert!(drawn.contains(" FINISHED 3, 1 new   (."), "{drawn}");
    // Grouped by server, what ended since is counted as new.
    screen.keys("B").wait(2_000);
    assert!(screen.draw().contains(" ci 2 "), "{}", screen.draw());
    let ended = settled(morning().remove(6), Status::Completed, 0);
    news(&mut screen, ended);
    screen.wait(2_000);
    assert!(screen.draw().contains(" ci 2, 1 new "), "{}", screen.draw());
}

#[test]
fn a_requested_refresh_moves_every_row_to_its_group() {
    for keys in [
        "/ d enter",
        "!",
        ".",
        "B B B",
        "s",
        "S",
        "g",
        "3 esc",
        "3 1",
        "2 q",
    ] {
        let mut screen = Screen::morning(WIDE, colour());
        news(
            &mut screen,
            settled(morning().remove(3), Status::Completed, 0),
        );
        let stray = |screen: &Screen| {
            let mut entities = screen.state.tasks.values();
            entities.any(|task_row| task_row.listed_group != task_row.group())
        };
        assert!(stray(&screen), "the row under the cursor waits");
        screen.keys("k j");
        assert!(stray(&screen), "so does one within a second of a key");
        screen.keys(keys);
        assert!(!stray(&screen), "{keys}");
    }
}

#[test]
fn the_log_leaves_no_digit_out() {
    let mut screen = Screen::morning(WIDE, colour());
    let mut entry = history().remove(3);
    entry.seq = 15;
    entry.what = HistoryEvent::Progress(Progress {
        value: 44_125.0,
        total: Some(60_000.0),
        message: None,
    });
    screen.event(history_read(id("q7m2xk"), vec![entry]));
    screen.keys("esc enter ]");
    assert!(screen.draw().contains("44,125/60,000"), "{}", screen.draw());
    screen.keys("/").type_in("44,125/60,000").keys("enter");
    assert_eq!(answer(&screen), "1 matching line");
}

#[test]
fn shows_that_more_rows_exist() {
    let mut screen = Screen::new(WIDE, colour());
    for number in 0..60 {
        let mut view = morning().remove(3);
        view.task.id = longhaul::domain::TaskId::from_bits(number);
        news(&mut screen, view);
    }
    screen.wait(1_000).keys("g");
    assert!(screen.draw().contains(" more ↓"), "{}", screen.draw());
    screen.keys("G");
    assert!(screen.draw().contains(" more ↑"), "{}", screen.draw());
}

#[test]
fn the_footer_of_the_edit_dialog_says_save() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("e");
    assert!(screen.draw().contains("Ctrl-S save"), "{}", screen.draw());
}

#[test]
fn the_action_menu_disables_impossible_items_with_a_reason() {
    let mut screen = Screen::new(WIDE, colour());
    let mut unknown = morning().remove(6);
    unknown.task.status = Status::Unknown(longhaul::domain::UnknownReason::NoIds);
    unknown.task.attempts[0].cursors = longhaul::domain::Cursors::default();
    news(&mut screen, unknown.clone());
    screen.keys("enter").wait(500);
    assert!(
        screen
            .draw()
            .contains("look for it on the server (not possible: no event id or checkpoint)")
    );
    screen.todo.clear();
    screen.keys("l");
    assert_eq!(asks(&screen), []);
    screen.keys("esc");
    unknown.task.resumability.checkpoint = true;
    news(&mut screen, unknown);
    screen.keys("enter").wait(500).keys("l");
    assert_eq!(asks(&screen), [SessionRequest::Resume(id("pd6xw8"))]);
}

#[test]
fn one_task_needs_you_and_two_need_you() {
    let mut screen = Screen::new(WIDE, colour());
    news(&mut screen, morning().remove(1));
    assert!(screen.draw().contains(" 1 needs you "));
    news(&mut screen, morning().remove(2));
    assert!(screen.draw().contains(" 2 need you "));
}

#[test]
fn a_long_refusal_can_be_read_to_its_end_among_the_messages() {
    let mut screen = Screen::morning(USUAL, colour());
    screen.todo.clear();
    screen.keys("p");
    let Some(Command::Request(ask, _)) = screen.todo.first().cloned() else {
        panic!();
    };
    let words = "Not paused: this server has no tool that pauses a run, so the work goes on; cancel it with x, or leave and come back";
    screen.event(Event::Session(SessionEvent::Response {
        request: ask,
        outcome: Err(longhaul::domain::RequestError::Usage(words.to_owned())),
    }));
    screen.wait(60_000).keys("4");
    let drawn = screen.draw();
    assert!(drawn.contains("or leave and come"), "{drawn}");
}

#[test]
fn quit_offers_no_wait_when_no_call_would_end() {
    let mut screen = Screen::new(WIDE, colour());
    news(&mut screen, morning().remove(4));
    screen.keys("q").wait(500);
    assert!(screen.draw().contains("don't quit"));
    assert!(!screen.draw().contains("quit once"));
}

#[test]
fn shows_a_pending_control_with_its_age() {
    for (what, word) in [
        (ControlKind::Pausing, "pausing 8s"),
        (ControlKind::Resuming, "resuming 8s"),
        (ControlKind::Cancelling, "cancelling "),
    ] {
        let mut screen = Screen::morning(WIDE, colour());
        let mut view = morning().remove(5);
        view.task.control = Some(longhaul::domain::ControlRequest {
            what,
            at: ago(8_000),
        });
        news(&mut screen, view);
        assert!(screen.draw().contains(word), "{word}");
    }
}

#[test]
fn the_price_of_a_running_row_is_the_word_of_the_list() {
    let screen = Screen::morning(WIDE, colour());
    let drawn = screen.draw();
    for price in [
        CutReason::Checkpoint { step: Some(30.0) }.into(),
        IfCut {
            reason: CutReason::EventStore,
            until: None,
        },
        CutReason::NoEventIds.into(),
    ] {
        assert!(
            drawn.contains(&format!(" {}\n", price.label())),
            "{}",
            price.label()
        );
    }
}

/// The screen with these keys; nothing of them is refused.
fn with_keys(wishes: &[(&str, &[&str])]) -> Screen {
    let wishes: Vec<KeyOverride> = wishes
        .iter()
        .map(|(action, chords)| KeyOverride {
            action: (*action).to_owned(),
            chords: chords.iter().map(|chord| (*chord).to_owned()).collect(),
        })
        .collect();
    let (keys, said) = Keymap::with_overrides(&wishes);
    assert_eq!(said, []);
    let mut screen = Screen::morning(WIDE, colour());
    screen.state.setup.settings.keys = keys;
    screen.todo.clear();
    screen
}

#[test]
fn a_custom_key_works_and_is_shown_everywhere() {
    let mut screen = with_keys(&[
        ("pause", &["ctrl-p"]),
        ("cancel", &["delete", "X"]),
        ("resume", &["ctrl-r"]),
        ("again", &[]),
        ("help", &["H"]),
        ("open", &["o"]),
        ("zoom", &["K"]),
    ]);
    screen.keys("p");
    assert_eq!(answer(&screen), "p does nothing here; press H for the keys");
    assert_eq!(asks(&screen), []);
    screen.keys("ctrl-p");
    assert_eq!(asks(&screen), [SessionRequest::Pause(id("q7m2xk"))]);
    let drawn = screen.draw_text();
    for shown in ["o open", "Ctrl-P pause", "Delete cancel", "[ ] tab  K zoom"] {
        assert!(drawn.contains(shown), "{shown} is not in:\n{drawn}");
    }
    // Rows, answers and the banner name keys in sentences.
    assert!(drawn.contains("(o opens)"), "{drawn}");
    assert!(!drawn.contains("Enter"), "{drawn}");
    assert!(!drawn.contains("run again"), "{drawn}");

    screen.keys("H");
    let help = screen.draw_text();
    for (key, words) in [
        ("Ctrl-P ", "pause; press again"),
        ("Delete X", "cancel (asks"),
    ] {
        let line = help.lines().find(|line| line.contains(words));
        assert!(line.is_some_and(|line| line.contains(key)), "{key}: {help}");
    }
    assert!(help.contains(":again"), "{help}");
    screen.keys("esc :").type_in("pause");
    let palette = screen.draw_text();
    let mut lines = palette.lines();
    let line = lines.find(|line| line.contains("pause; press again"));
    assert!(
        line.is_some_and(|line| line.contains("Ctrl-P")),
        "{palette}"
    );

    screen.keys("esc").go_to("c5b8yp").keys("ctrl-r");
    assert!(
        answer(&screen).ends_with("press :again to run it again"),
        "{}",
        answer(&screen)
    );
}

#[test]
fn a_choice_letter_wins_over_a_custom_leave_key() {
    let mut screen = with_keys(&[("quit", &["W", "y"]), ("copy", &["C"])]);
    screen.keys("x").wait(500).keys("y");
    assert_eq!(asks(&screen), [SessionRequest::Cancel(id("q7m2xk"))]);
    screen.todo.clear();
    screen.keys("x").wait(500).keys("W");
    assert_eq!(asks(&screen), []);
    assert!(screen.state.dialogs.stack.is_empty());
    screen.keys("W");
    assert_ne!(screen.state.exit.when, ExitWhen::No);
}

#[test]
fn suspend_and_redraw_work_under_any_layer() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc n");
    screen.todo.clear();
    screen.keys("ctrl-z ctrl-l");
    assert_eq!(
        screen.todo,
        [
            Command::Terminal(TerminalCommand::Suspend),
            Command::Terminal(TerminalCommand::Redraw)
        ]
    );
    assert_eq!(screen.state.dialogs.stack.len(), 1);
}

#[test]
fn events_after_the_end_do_nothing() {
    let mut state = State::new(Setup::default());
    let now = at(0);
    let quit = update(
        &mut state,
        Event::Input(UserInput::Key(Chord::char('q'))),
        now,
    );
    assert!(matches!(quit.as_slice(), [.., Command::Quit(_)]));
    assert_eq!(update(&mut state, Event::Tick, now), []);
    assert_eq!(next_wake(&state, now), None);
    assert!(now.mono > Mono(0));
}

/// The calls that were asked for since this was last looked at.
fn started(screen: &mut Screen) -> Vec<NewCall> {
    let asked = std::mem::take(&mut screen.todo);
    let call = |command: Command| match command {
        Command::Request(_, SessionRequest::Start(call)) => Some(*call),
        _ => None,
    };
    asked.into_iter().filter_map(call).collect()
}

#[test]
fn only_a_destructive_repeat_asks_for_confirmation() {
    let says = |read_only, destructive, idempotent| {
        let mut tools = tools();
        for tool in &mut tools {
            (tool.read_only, tool.destructive, tool.idempotent) =
                (read_only, destructive, idempotent);
        }
        tools
    };
    for (hints, words) in [
        ((None, None, None), None),
        (
            (None, Some(true), None),
            Some("marks this tool as destructive"),
        ),
        ((Some(true), Some(true), None), None),
        ((None, None, Some(true)), None),
        ((None, Some(false), None), None),
    ] {
        let mut screen = Screen::morning((120, 36), colour());
        screen.keys("esc").go_to("q7m2xk").keys("R");
        screen.answer_with(says(hints.0, hints.1, hints.2));
        screen.todo.clear();
        screen.keys("ctrl-s");
        let Some(words) = words else {
            assert_eq!(started(&mut screen).len(), 1, "{hints:?}");
            continue;
        };
        assert!(screen.draw_text().contains(words), "{}", screen.draw());
        assert_eq!(started(&mut screen), []);
        // A key typed by reflex is no consent, and a no leaves the form as it was.
        screen.keys("y");
        assert_eq!(started(&mut screen), []);
        screen.wait(1_000).keys("n ctrl-s").wait(1_000).keys("y");
        let calls = started(&mut screen);
        assert_eq!(calls.len(), 1);
        assert!(calls[0].origin.is_some() && !calls[0].is_unchecked);
    }
}

#[test]
fn running_again_without_a_change_sends_the_same_arguments() {
    let arguments = r#"{"text":"a\u200cb\tc","none":null,"big":18446744073709551615}"#;
    let mut views = morning();
    let of_row = views
        .iter_mut()
        .find(|view| view.task.id.as_str() == "q7m2xk");
    let mut view = of_row.unwrap().clone();
    view.task.arguments = arguments.to_owned();
    view.task.seq += 1_000;
    let mut tools = tools();
    for tool in &mut tools {
        tool.input_schema = r#"{"properties": {"text": {"type": "string"}, "none": {"type": ["string", "null"]}, "big": {"type": "integer"}}}"#.to_owned();
    }
    let mut screen = Screen::morning((120, 36), colour());
    news(&mut screen, view);
    screen.keys("esc").go_to("q7m2xk").keys("R");
    screen.answer_with(tools);
    screen.todo.clear();
    screen.keys("ctrl-s");
    let calls = started(&mut screen);
    let sent: Vec<&str> = calls.iter().map(|call| call.arguments.as_str()).collect();
    assert_eq!(sent, [arguments], "{}", screen.draw());
}

#[test]
fn reports_unchecked_only_for_calls_that_were_sent() {
    let mut tools = tools();
    for tool in &mut tools {
        tool.input_schema = r##"{"allOf": [{"$ref": "#"}]}"##.to_owned();
        tool.destructive = Some(true);
    }
    let said = |screen: &Screen| {
        let messages = screen.state.messages.log.iter();
        messages
            .filter(|message| message.text.contains("sent unchecked"))
            .count()
    };
    let mut screen = Screen::morning((120, 36), colour());
    screen.keys("esc").go_to("q7m2xk").keys("R");
    screen.answer_with(tools);
    screen.keys("ctrl-s").wait(1_000).keys("n");
    assert_eq!(said(&screen), 0);
    screen.keys("ctrl-s").wait(1_000).keys("y");
    assert_eq!(said(&screen), 1, "{}", screen.draw());
}

#[test]
fn sends_a_schema_violation_unchecked_on_the_second_request() {
    let mut tools = tools();
    tools[0].input_schema =
        r#"{"properties": {"code": {"type": "string", "pattern": "^[A-Z]+$"}}}"#.to_owned();
    let mut screen = Screen::morning((120, 36), colour());
    screen.keys("esc n enter").answer_with(tools);
    screen.keys("enter").type_in("abc").keys("enter enter");
    screen.todo.clear();
    screen.keys("enter enter");
    assert_eq!(started(&mut screen), [], "Enter never means it");
    let drawn = screen.draw();
    assert!(
        drawn.contains("code must match the pattern ^[A-Z]+$"),
        "{drawn}"
    );
    assert!(drawn.contains("code!"), "{drawn}");
    // Typing on takes the doubt back.
    screen.keys("backtab").type_in("d").keys("ctrl-s");
    assert_eq!(started(&mut screen), []);
    assert!(screen.draw().contains("again to send the call unchecked"));
    screen.keys("ctrl-s");
    let calls = started(&mut screen);
    assert!(
        calls[0].is_unchecked && calls[0].arguments.contains("abcd"),
        "{calls:?}"
    );
}

#[test]
fn a_full_form_says_that_it_can_be_sent_unchecked() {
    let names = "abcdefghijklmnopqrstuvwxyz".chars();
    let names: Vec<String> = names
        .map(|name| format!("{name:?}").replace('\'', "\""))
        .collect();
    let schema = format!(
        r#"{{"required": [{}], "properties": {{{}: {{}}}}}}"#,
        names.join(","),
        names.join(": {}, ")
    );
    for size in [USUAL, (40, 12)] {
        let mut screen = form_of(size, &schema);
        // Enter in an empty JSON field types nothing.
        screen.keys("enter enter ctrl-s");
        let drawn = screen.draw();
        assert!(drawn.contains("press Ctrl-S again to send"), "{drawn}");
        assert!(call_form(&screen).errors[0].contains("a is missing"));
    }
}

#[test]
fn enter_asks_again_for_tools_that_a_server_did_not_list() {
    let mut screen = Screen::morning(WIDE, colour());
    screen
        .go_to("q7m2xk")
        .keys("esc n enter")
        .refuse_tools("it sleeps");
    let drawn = screen.draw();
    assert!(
        drawn.contains("it sleeps. Press Enter to try again."),
        "{drawn}"
    );
    screen.todo.clear();
    screen.keys("enter");
    screen.answer_tools();
    assert!(!screen.draw().contains("it sleeps"));
}

#[test]
fn keeps_tabs_and_line_ends_of_a_text() {
    let schema = r#"{"properties": {"code": {"type": "string"}}}"#;
    let mut screen = form_of(WIDE, schema);
    screen.type_in("a:\n\tb\t\x1bc").keys("ctrl-s");
    let calls = started(&mut screen);
    assert_eq!(calls[0].arguments, r#"{"code":"a:\n\tb\t c"}"#);

    let is_it = |view: &TaskView| view.task.id == id("q7m2xk");
    let mut view = morning().into_iter().find(is_it).unwrap();
    view.task.arguments = r#"{"code":"one\r\n\ttwo"}"#.to_owned();
    let mut tool = tools().remove(1);
    (tool.name, tool.input_schema) = (view.task.tool.clone(), schema.to_owned());
    let mut screen = Screen::morning(WIDE, colour());
    screen.news(view).go_to("q7m2xk").keys("R");
    screen.answer_with(vec![tool]).type_in("x").keys("ctrl-s");
    let calls = started(&mut screen);
    assert_eq!(calls[0].arguments, r#"{"code":"xone\r\n\ttwo"}"#);
}

#[test]
fn finds_a_server_by_name_and_takes_other_text_as_a_url() {
    let mut screen = Screen::morning(WIDE, colour());
    let at = |screen: &Screen| match screen.state.dialogs.stack.last() {
        Some(Overlay::Call(form)) => (form.server_at, form.url.text().to_owned()),
        other => panic!("{other:?}"),
    };
    screen.go_to("q7m2xk").keys("n");
    assert_eq!(at(&screen).0, 0);
    screen.keys("j j k");
    assert_eq!(at(&screen), (1, String::new()));
    screen.keys("c i");
    let drawn = screen.draw();
    assert!(drawn.contains("filter: ci"), "{drawn}");
    screen.todo.clear();
    screen.keys("enter");
    assert_eq!(
        asks(&screen),
        [SessionRequest::Tools(ServerName::new("ci"))]
    );
    // One key back: the line of keys says so.
    assert!(screen.draw().contains("Esc back"), "{}", screen.draw());
    screen
        .keys("esc backspace backspace")
        .type_in("http://127.0.0.1:9/mcp");
    assert!(
        screen
            .draw()
            .contains("name or URL: http://127.0.0.1:9/mcp")
    );
    screen.todo.clear();
    screen.keys("enter");
    assert!(matches!(asks(&screen)[..], [SessionRequest::Server(_)]));
}

/// The form of a tool that takes this, on build-box.
fn form_of(size: (u16, u16), schema: &str) -> Screen {
    let mut screen = Screen::morning(size, colour());
    let mut tool = tools().remove(1);
    tool.input_schema = schema.to_owned();
    screen.go_to("q7m2xk").keys("esc n enter");
    screen.answer_with(vec![tool]).keys("enter");
    screen
}

#[test]
fn shows_selected_values_and_choices_in_full() {
    let schema = r#"{"properties": {
        "angle": {"enum": ["Technical/scientific perspective", "Historical context", "Current events and news"]},
        "extras": {"type": "array", "items": {"enum": ["wifi", "meal", "lounge", "window", "silence", "luggage"]}}}}"#;
    let mut screen = form_of(USUAL, schema);
    screen.keys("right");
    let drawn = screen.draw();
    assert!(
        drawn.contains("< Technical/scientific perspective >"),
        "{drawn}"
    );
    assert!(drawn.contains("events and news "), "{drawn}");
    screen.keys("down");
    let drawn = screen.draw();
    assert!(
        drawn.contains("Technical/scientific perspective "),
        "{drawn}"
    );
    for word in ["[ ] wifi", "[ ] meal", "[ ] lounge", "silence,"] {
        assert!(drawn.contains(word), "{word}: {drawn}");
    }
}

#[test]
fn switching_to_json_and_back_keeps_every_field() {
    let schema = r#"{"properties": {"n": {"type": "integer", "default": 100}, "pay": {"oneOf": [
        {"title": "card", "type": "object", "properties": {"number": {"type": "string"}}},
        {"title": "invoice", "type": "object", "properties": {"vat": {"type": "string"}}}]}}}"#;
    let mut screen = form_of(WIDE, schema);
    screen.type_in("100abc").keys("ctrl-r");
    assert!(call_form(&screen).raw.is_none());
    assert_eq!(call_form(&screen).errors, ["n must be a whole number"]);
    screen.keys("ctrl-u").type_in("7").keys("down");
    screen.type_in(r#"{"vat":   "x"}"#).keys("ctrl-r");
    assert!(call_form(&screen).raw.is_some());
    screen.keys("ctrl-r down");
    let drawn = screen.draw();
    assert!(drawn.contains(r#"{"vat":   "x"}"#), "{drawn}");
}

#[test]
fn enter_starts_a_nested_argument_from_its_template() {
    let schema = r#"{"required": ["to"], "properties": {"to": {"type": "object", "required": ["street", "floor"],
        "properties": {"street": {"type": "string", "minLength": 1}, "floor": {"type": "integer", "default": 2},
            "door": {"type": "string"}}}}}"#;
    let mut screen = form_of(WIDE, schema);
    let drawn = screen.draw();
    assert!(drawn.contains("JSON; Enter inserts a template"), "{drawn}");
    screen.keys("ctrl-s");
    assert_eq!(call_form(&screen).errors, ["to is missing"]);
    screen.keys("enter ctrl-s");
    let form = call_form(&screen);
    let template = serde_json::json!({"street": "", "floor": 2});
    assert_eq!(form.fields[0].read(), Ok(Some(template)));
    assert_eq!(form.errors, ["to.street must have at least 1 character"]);
    assert!(form.is_wrong(&form.fields[0]) && form.sent.is_none());
    // Once there is text, Enter begins a line.
    screen.keys("down end enter");
    let field = call_form(&screen).fields[0].clone();
    assert!(!field.has_template() && field.read().is_ok());
}

#[test]
fn restores_a_draft_until_it_is_sent() {
    let mut screen = form_of(WIDE, r#"{"properties": {"city": {"type": "string"}}}"#);
    screen.keys("esc");
    assert_eq!(answer(&screen), "", "nothing is filled in");
    screen.keys("enter").type_in("Lisbon").keys("esc");
    assert!(answer(&screen).contains("kept until you send it"));
    screen.keys("esc esc n enter enter");
    assert!(answer(&screen).contains("draft restored"));
    assert!(screen.draw().contains("Lisbon"));
    screen.type_in("!").keys("esc");
    screen.keys("esc esc 2 enter");
    assert!(screen.draw().contains("Lisbon!"));
    // Left as it was, it is dropped.
    screen.keys("esc");
    assert!(answer(&screen).contains("discarded"));
    screen.keys("enter");
    assert!(!screen.draw().contains("Lisbon"));
    screen.type_in("Faro").keys("ctrl-s");
    screen.state.dialogs.stack.clear();
    screen.keys("enter");
    assert!(!screen.draw().contains("Faro"), "it was sent");
}

#[test]
fn enter_adds_an_item_to_a_list() {
    let list = r#"{"properties": {"stops": {"type": "array", "items": {"type": "string"}}}}"#;
    let mut screen = form_of(WIDE, list);
    assert!(
        screen.draw().contains("one per line: text"),
        "{}",
        screen.draw()
    );
    screen.type_in("a stop").keys("enter").type_in("end");
    let field = |screen: &Screen| call_form(screen).fields[0].read();
    assert_eq!(
        field(&screen),
        Ok(Some(serde_json::json!(["a stop", "end"])))
    );
}

#[test]
fn names_the_missing_field_of_the_meant_alternative() {
    let schema = r#"{"properties": {"pay": {"oneOf": [
        {"title": "card", "type": "object", "required": ["number"], "properties":
            {"kind": {"const": "card"}, "number": {"type": "string"}}},
        {"title": "invoice", "type": "object", "required": ["vat"], "properties":
            {"kind": {"const": "invoice"}, "vat": {"type": "string"}}}]}}}"#;
    let mut screen = form_of(WIDE, schema);
    screen.type_in(r#"{"kind": "invoice"}"#).keys("ctrl-s");
    let form = call_form(&screen);
    assert_eq!(form.errors, ["pay.vat is missing"]);
    assert!(form.is_wrong(&form.fields[0]) && form.sent.is_none());
    // Nothing tells which alternative was meant.
    let bare = schema.replace(r#""kind": {"const": "card"}, "#, "");
    let mut screen = form_of(WIDE, &bare.replace(r#""kind": {"const": "invoice"}, "#, ""));
    screen.type_in("{}").keys("ctrl-s");
    let errors = &call_form(&screen).errors;
    assert_eq!(*errors, ["pay matches none of its 2 alternatives"]);
}

#[test]
fn does_not_show_a_task_ttl_as_its_deadline() {
    let mut screen = Screen::new(USUAL, colour());
    let mut view = task("m2hn5t", "lab", "render_movie", "{}", 9 * SECOND);
    view.task.server_task = Some(server_task(9 * SECOND, HOUR));
    screen.news(view.clone());
    assert!(!screen.draw().contains("by 07:5"), "{}", screen.draw());
    view.task.status = Status::InputRequired;
    screen.news(view);
    assert!(screen.draw().contains("by 07:5"), "{}", screen.draw());
}

#[test]
fn the_header_matches_what_a_servers_calls_show() {
    let mut screen = Screen::new(WIDE, colour());
    let live = server("lab", longhaul::domain::LinkState::Live);
    screen.event(Event::Session(SessionEvent::Server(Arc::new(live))));
    let first = |screen: &Screen| screen.draw().lines().next().unwrap().to_owned();
    let mut view = task("m2hn5t", "lab", "render_movie", "{}", 9 * SECOND);
    screen.news(view.clone());
    assert!(first(&screen).contains("lab live"), "{}", first(&screen));
    view.contact = Connectivity::Reconnecting {
        attempt: 1,
        next: Wall(NOW + 4 * SECOND),
        why: "silent".to_owned(),
    };
    screen.news(view.clone()).wait(16_000);
    assert!(
        first(&screen).contains("lab reconnecting"),
        "{}",
        first(&screen)
    );
    screen.news(settled(view, Status::Completed, 0));
    assert!(first(&screen).contains("lab idle"), "{}", first(&screen));
}

#[test]
fn the_header_lists_servers_that_need_attention_first() {
    let mut screen = Screen::new(WIDE, colour());
    for name in ["one", "two", "three", "four", "five", "six", "seven"] {
        let mut view = server(name, longhaul::domain::LinkState::Live);
        if name == "seven" {
            view.obstacle = Some(longhaul::domain::ServerObstacle::Approval);
        }
        screen.event(Event::Session(SessionEvent::Server(Arc::new(view))));
    }
    let drawn = screen.draw();
    let first = drawn.lines().next().unwrap();
    assert!(first.contains("seven needs approval"), "{first}");
    assert!(first.contains(" +"), "{first}");
}

#[test]
fn the_header_always_shows_the_filter() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("/").type_in("tool:render").keys("enter w");
    let drawn = screen.draw();
    let first = drawn.lines().next().unwrap();
    assert!(first.contains("FILTER tool:render"), "{first}");
}

#[test]
fn a_misspelled_filter_lists_the_valid_keys() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc");
    for (typed, words) in [
        (
            "statuss:foo",
            "\"statuss:\" is not a filter key; expected one of: status, server, tag, tool, id",
        ),
        (
            "status:foo",
            "\"status:foo\" matches nothing; expected one of: queued, running, input-required",
        ),
    ] {
        screen.keys("/").type_in(typed).keys("enter");
        let drawn = screen.draw();
        assert!(drawn.contains(words), "{drawn}");
        screen.keys("esc");
    }
    for fine in [
        "status:fail",
        "!status:done",
        "status:asking",
        "http://x",
        "server:zz",
        "12:30",
    ] {
        assert_eq!(longhaul::app::Filter::invalid_reason(fine), None, "{fine}");
    }
}

/// So many tools like one, with numbers in their names.
fn tools_like(one: &longhaul::domain::Tool, count: usize) -> Vec<longhaul::domain::Tool> {
    let tool = |number| longhaul::domain::Tool {
        name: format!("tool_{number:03}"),
        ..one.clone()
    };
    (0..count).map(tool).collect()
}

#[test]
fn pages_through_the_tools_of_a_new_call() {
    let mut screen = Screen::morning(USUAL, colour());
    screen
        .keys("esc 2")
        .answer_with(tools_like(&tools()[0], 100));
    screen.keys("esc n enter").keys("pgdn");
    let drawn = screen.draw();
    let chosen = drawn.lines().find(|line| line.contains("\u{25b8}"));
    let page = usize::from(USUAL.1) - 10;
    let expected = format!("tool_{page:03}");
    assert!(
        chosen.is_some_and(|line| line.contains(&expected)),
        "{drawn}"
    );
}

#[test]
fn counts_tools_that_do_not_fit_in_the_pane() {
    let many: Vec<String> = (1..=20)
        .map(|n| format!(r#""argument_{n}":{{"type":"string"}}"#))
        .collect();
    let one = longhaul::domain::Tool {
        input_schema: format!(r#"{{"properties":{{{}}}}}"#, many.join(",")),
        ..tools().remove(0)
    };
    let mut screen = Screen::morning(USUAL, colour());
    screen.keys("esc 2").answer_with(tools_like(&one, 20));
    let drawn = screen.draw();
    let title = drawn
        .lines()
        .find(|line| line.contains("Tools of"))
        .unwrap();
    assert!(title.contains("Tools of build-box   1"), "{title}");
    assert!(title.contains(" more \u{2193}"), "{title}");
    assert!(drawn.contains("Enter opens the form"), "{drawn}");
}

#[test]
fn a_reload_clears_config_errors() {
    let mut screen = Screen::morning(WIDE, colour());
    let read = || {
        Event::ConfigRead(Box::new(ConfigReread {
            file: "/c/config.toml".to_owned(),
            ..ConfigReread::default()
        }))
    };
    let wrong = "/c/config.toml:18: unclosed table, and what can be done about it is told at such a length that two lines of a message have no room for it, so that its end is read elsewhere";
    screen.event(Event::Failed(wrong.to_owned()));
    assert!(screen.draw().contains("4 for details"), "{}", screen.draw());
    screen.event(read());
    let texts = |screen: &Screen| -> Vec<String> {
        screen
            .state
            .messages
            .toasts
            .iter()
            .map(|it| it.text.clone())
            .collect()
    };
    assert_eq!(texts(&screen), ["reloaded /c/config.toml: 0 servers"]);
}

#[test]
fn the_keys_stay_in_sight_below_the_help_and_a_tall_form() {
    let mut screen = Screen::morning(USUAL, colour());
    screen.keys("?");
    assert!(screen.draw().contains("Esc back"), "{}", screen.draw());
    screen.keys(&"pgdn ".repeat(20));
    assert!(screen.draw().contains("copy the URL"), "{}", screen.draw());
    let many: Vec<String> = (1..=20)
        .map(|n| format!(r#""argument_{n}":{{"type":"string"}}"#))
        .collect();
    let screen = form_of(
        USUAL,
        &format!(r#"{{"properties":{{{}}}}}"#, many.join(",")),
    );
    assert!(
        screen.draw().contains("Ctrl-R JSON/fields"),
        "{}",
        screen.draw()
    );
}

#[test]
fn a_new_task_opens_on_its_present() {
    let mut screen = form_of(WIDE, "{}");
    screen.state.detail.tab = Tab::Result;
    screen.keys("ctrl-s");
    let ask = screen.todo.iter().find_map(|command| match command {
        Command::Request(ask, SessionRequest::Start(_)) => Some(*ask),
        _ => None,
    });
    screen.event(Event::Session(SessionEvent::Response {
        request: ask.unwrap(),
        outcome: Ok(SessionResponse::Started(id("zzzzzz"))),
    }));
    assert_eq!(screen.state.detail.tab, Tab::Now);
}

#[test]
fn the_cursor_starts_on_the_first_task_that_needs_you() {
    let mut screen = Screen::new(USUAL, colour());
    screen.event(Event::Restored {
        watched_at: None,
        views: morning().into_iter().rev().map(Arc::new).collect(),
        servers: Vec::new(),
        saved_at: None,
    });
    assert_eq!(screen.state.list.cursor, Some(id("k3v9ra")));
    assert_eq!(screen.state.list.top, 0);
    // From another machine, they arrive one by one.
    let mut screen = Screen::new(USUAL, colour());
    screen.state.setup.host = Some("box".to_owned());
    for view in morning().into_iter().rev() {
        news(&mut screen, view);
    }
    screen.event(Event::Session(SessionEvent::Driver(SessionDriver {
        pid: 4711,
        is_us: false,
        is_keeper: true,
        since: Wall(0),
    })));
    assert_eq!(screen.state.list.cursor, Some(id("k3v9ra")));
    assert_eq!(screen.state.list.top, 0);
}

#[test]
fn dates_a_task_by_when_it_was_last_followed() {
    let mut screen = Screen::morning(WIDE, colour());
    let driver = SessionEvent::Driver(SessionDriver {
        pid: 4711,
        is_us: false,
        is_keeper: false,
        since: Wall(0),
    });
    screen.event(Event::Session(driver));
    screen.wait(440_000);
    screen.event(Event::Session(SessionEvent::Undriven));
    let drawn = screen.draw();
    assert!(drawn.contains("Saved at 06:59:20"), "{drawn}");
}

#[test]
fn a_message_names_a_task_by_its_distinct_arguments() {
    let mut screen = Screen::morning(WIDE, colour());
    news(
        &mut screen,
        settled(morning().remove(4), Status::Completed, 0),
    );
    let drawn = screen.draw();
    assert!(
        drawn.contains("m2hn5t render_movie scene=13 completed"),
        "{drawn}"
    );
}

#[test]
fn ranks_a_name_match_above_description_matches() {
    let tool = |name: &str, words: &str| longhaul::domain::Tool {
        name: name.to_owned(),
        description: Some(words.to_owned()),
        ..tools().remove(0)
    };
    let all = vec![
        tool("get-structured-content", "Belongs to a long list."),
        tool("prolong", "More time."),
        tool("trigger-long-running-operation", "Takes its time."),
        tool("longest", "Measures."),
    ];
    let mut screen = Screen::morning(WIDE, colour());
    screen.go_to("q7m2xk").keys("n enter").answer_with(all);
    assert!(screen.draw().contains("type to filter"));
    let found = |screen: &Screen| match screen.state.dialogs.stack.last() {
        Some(Overlay::Call(form)) => {
            let found = form.matching(&screen.state).into_iter();
            let names: Vec<&str> = found.map(|(_, tool)| tool.name.as_str()).collect();
            names.join(" ")
        }
        other => panic!("{other:?}"),
    };
    screen.type_in("/long");
    let ranked = "longest prolong trigger-long-running-operation get-structured-content";
    assert_eq!(found(&screen), ranked);
}

#[test]
fn finds_a_tool_across_servers_and_calls_it_on_its_server() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc 2").answer_tools();
    // The tools of a second server, by way of the list of servers.
    screen.keys("3 j j enter");
    let mut others = tools();
    others.truncate(2);
    others[1].name = "get_tides".to_owned();
    screen.answer_with(others);
    screen.todo.clear();
    screen.keys("/").type_in("tides");
    let drawn = screen.draw();
    assert!(
        drawn.contains("tool on any server, filter: tides"),
        "{drawn}"
    );
    assert!(!drawn.contains("get_forecast   "), "{drawn}");
    screen.keys("enter").type_in("Lisbon").keys("ctrl-s");
    let calls = started(&mut screen);
    assert_eq!(
        (calls[0].tool.as_str(), calls[0].server.as_str()),
        ("get_tides", "ci")
    );
    screen.keys("esc").keys("/ esc");
    assert!(screen.state.dialogs.stack.is_empty(), "one Esc closes it");
}

#[test]
fn rereads_the_configuration_on_focus_and_on_command() {
    let look = |force| Command::CheckConfig { force };
    let mut screen = Screen::morning(WIDE, colour());
    screen.todo.clear();
    screen.event(Event::Input(UserInput::FocusGained));
    screen.keys("3");
    screen.keys(":").type_in("reload").keys("enter");
    let looks = |screen: &Screen| -> Vec<Command> {
        let is_look = |it: &&Command| matches!(it, Command::CheckConfig { .. });
        screen.todo.iter().filter(is_look).cloned().collect()
    };
    assert_eq!(looks(&screen), [look(false), look(false), look(true)]);
    let server_configs = ServerConfigs {
        file: Some("/c".to_owned()),
        ..ServerConfigs::default()
    };
    screen.event(Event::ConfigRead(Box::new(ConfigReread {
        file: "~/c".to_owned(),
        server_configs: server_configs.clone(),
        settings: Settings {
            notify: NotifyConfig {
                no_title: true,
                ..NotifyConfig::default()
            },
            ..Settings::default()
        },
        ..ConfigReread::default()
    })));
    assert_eq!(
        asks(&screen).last(),
        Some(&SessionRequest::Configure(server_configs))
    );
    assert!(screen.state.setup.settings.notify.no_title);
    screen.todo.clear();
    // Where nothing follows from it nobody looks.
    screen.state.setup.readonly = true;
    screen.event(Event::Input(UserInput::FocusGained));
    screen.keys(":").type_in("reload").keys("enter");
    assert_eq!(looks(&screen), []);
}

#[test]
fn a_key_dropped_by_a_dialog_is_named() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.todo.clear();
    screen.keys("x").wait(100).keys("y");
    assert_eq!(asks(&screen), []);
    assert_eq!(
        answer(&screen),
        "ignored y, because you pressed it before this appeared; press it again"
    );
    assert!(screen.draw().contains("ignored y"), "{}", screen.draw());
    screen.wait(100).keys("esc");
    // Typed by somebody who knows what follows.
    screen.keys("x").wait(300).keys("y");
    assert_eq!(asks(&screen), [SessionRequest::Cancel(id("q7m2xk"))]);
}

#[test]
fn every_event_makes_a_frame_due() {
    let found = Event::ServersFound(longhaul::app::ServerFindings {
        lines: vec!["new lab: http://127.0.0.1:8931/mcp".to_owned()],
        new: 1,
        ..Default::default()
    });
    let mut screen = Screen::new(WIDE, colour());
    screen.keys("i");
    assert!(answer(&screen).contains("looking for servers"));
    screen.state.is_dirty = false;
    screen.event(found);
    assert!(screen.state.is_dirty);
    // What it said was under way is over.
    assert_eq!(screen.state.messages.reply, None);
}

#[test]
fn help_takes_all_typing() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.todo.clear();
    // Every letter of it means something in the list.
    screen.keys("? / t r a c e");
    assert!(screen.state.list.marks.is_empty());
    let drawn = screen.draw();
    assert!(
        drawn.contains("start or stop recording traffic") && !drawn.contains("next match"),
        "{drawn}"
    );
    screen.keys("enter");
    assert!(screen.state.dialogs.stack.is_empty());
    assert!(matches!(
        asks(&screen).as_slice(),
        [SessionRequest::Trace { .. }]
    ));

    // A key finds what it does, and Esc closes without doing it.
    screen.todo.clear();
    screen.keys("? p");
    let drawn = screen.draw();
    let place = |words: &str| drawn.find(words).unwrap_or(usize::MAX);
    assert!(
        place("pause; press again") < place("switch between list"),
        "{drawn}"
    );
    screen.keys("esc");
    assert_eq!(
        (asks(&screen), screen.state.dialogs.stack.len()),
        (vec![], 0)
    );

    // What only works elsewhere says so, and what fits nothing does nothing.
    screen.keys("? ctrl-s").type_in("send").keys("enter");
    assert_eq!(answer(&screen), "Ctrl-S works in a form");
    screen.keys("ctrl-u").type_in("no such thing").keys("enter");
    assert!(answer(&screen).contains("not a screen command"));
    assert_eq!(screen.state.dialogs.stack.len(), 1);
    screen.keys("ctrl-u down down enter");
    assert!(screen.state.dialogs.stack.is_empty(), "the third: down");
    assert_eq!(asks(&screen), []);
}

#[test]
fn a_page_is_closed_only_by_the_keys_that_close() {
    let mut screen = Screen::new(USUAL, colour());
    screen.state.dialogs.stack.push(Overlay::Page {
        title: "Servers found".to_owned(),
        lines: vec!["one".to_owned()],
        scroll: 0,
    });
    screen.keys("t r a c e");
    assert_eq!(screen.state.dialogs.stack.len(), 1);
    assert_eq!(answer(&screen), "press j or k to scroll, Esc to close");
    screen.keys("q");
    assert!(screen.state.dialogs.stack.is_empty() && screen.state.exit.note.is_none());
}

#[test]
fn the_timeline_reads_the_lanes_that_it_shows_and_opens_one() {
    let mut screen = Screen::morning(WIDE, colour());
    let saved = |screen: &mut Screen, name: &str, seq: u64| {
        let mut view = screen
            .state
            .tasks
            .get(&id(name))
            .unwrap()
            .view
            .as_ref()
            .clone();
        view.saved_seq = seq;
        screen.news(view);
    };
    saved(&mut screen, "pd6xw8", 7);
    screen.todo.clear();
    screen.keys("5");
    let reads = |screen: &mut Screen| -> Vec<(TaskId, u64)> {
        let of = |command: Command| match command {
            Command::Read(SavedRead::Milestones(wanted)) => wanted,
            _ => Vec::new(),
        };
        screen.todo.drain(..).flat_map(of).collect()
    };
    assert!(reads(&mut screen).contains(&(id("pd6xw8"), 0)));
    // Only what is new, and at most once a second.
    saved(&mut screen, "pd6xw8", 9);
    assert_eq!(reads(&mut screen), []);
    screen.wait(1_000);
    assert_eq!(reads(&mut screen), [(id("pd6xw8"), 7)]);

    assert!(screen.draw().contains("8 h: "), "{}", screen.draw());
    screen.keys("+");
    assert!(screen.draw().contains("3 h: "), "{}", screen.draw());
    screen.keys("-");
    assert!(screen.draw().contains("8 h: "), "{}", screen.draw());

    screen.keys("g enter");
    assert_eq!(screen.state.pane, Pane::Tasks);
    assert_eq!(screen.state.list.cursor, Some(id("k3v9ra")));
}

/// An agent's call, whose host gave up on it.
fn of_agent(name: &str) -> TaskView {
    let mut view = task(name, "lab", "render", "{}", 5 * MINUTE);
    view.task.caller = Some(Box::new(Caller {
        host: "claude-code".to_owned(),
        version: "2.1".to_owned(),
        directory: "/home/ada/src/app".to_owned(),
        capabilities: longhaul::domain::HostCapabilities::default(),
        request_id: "7".to_owned(),
        call_id: None,
        meta: None,
        other_params: None,
        gave_up: Some(GaveUp {
            at: ago(4 * MINUTE),
            after_ms: 48_000,
            why: GaveUpReason::Ticket,
        }),
        timeout_ms: None,
        repeats: 1,
        delivered_at: None,
        keep_ms: 60_000_000,
    }));
    view
}

#[test]
fn a_row_says_which_agent_made_the_call() {
    let mut screen = Screen::morning((140, 40), colour());
    assert!(!screen.draw_text().contains("FROM"));
    screen.news(of_agent("agnt22"));
    screen.go_to("agnt22");
    let drawn = screen.draw_text();
    assert!(
        drawn.contains("FROM") && drawn.contains("claude-code app"),
        "{drawn}"
    );
    assert!(drawn.contains("a ticket after 48 s"), "{drawn}");
    for filter in ["by:claude", "dir:src/app", "by:claude-code dir:/home"] {
        screen.keys("esc esc /").type_in(filter).keys("enter");
        let rows = screen.state.list.rows.iter();
        let tasks = rows.filter(|line| matches!(line, longhaul::app::ListRow::Task(_)));
        assert_eq!(tasks.count(), 1, "{filter}");
    }
}
