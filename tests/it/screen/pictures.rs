//! Snapshots: one table of scenes, each drawn at every size and in every mode, at a fixed time.
//!
//! One file holds a scene at one size: the text and the styles in colour, then what is different in mono and in ASCII.

use std::{fmt::Write as _, sync::Arc};

use longhaul::{
    app::{Command, Event, Look},
    domain::{
        Connectivity, ControlKind, ControlRequest, CutReason, LinkState, LostReason, Notice,
        NoticeLevel, Phase, RequestError, SavedRead, ServerName, SessionDriver, SessionEvent,
        SessionRequest, Status, TaskView, UnknownReason, Wall,
    },
};

use super::support::*;

/// A scene: its name, and how to get there from a screen of this size and look.
type Scene = (&'static str, fn((u16, u16), Look) -> Screen);

const SCENES: &[Scene] = &[
    // The list.
    ("list_morning", |size, look| Screen::morning(size, look)),
    ("list_states", every_state),
    ("list_empty", |size, look| Screen::new(size, look)),
    ("list_restored_offline", restored_offline),
    ("list_demo", demo),
    ("list_frozen", |size, look| {
        let mut screen = pressed(size, look, "esc Z");
        screen.wait(5_000);
        let mut view = morning().remove(3);
        view.task.updated_at = screen.now.wall;
        news(&mut screen, view);
        screen
    }),
    ("list_needs_you_only", |size, look| {
        pressed(size, look, "esc !")
    }),
    ("timeline", |size, look| {
        let mut screen = pressed(size, look, "esc 5");
        screen.read_lives();
        screen
    }),
    ("timeline_of_an_hour", |size, look| {
        let mut screen = pressed(size, look, "esc 5 + + g");
        screen.read_lives();
        screen
    }),
    ("list_folded", |size, look| pressed(size, look, "esc .")),
    ("list_marked_and_filtered", |size, look| {
        let mut screen = pressed(size, look, "esc space space /");
        screen.type_in("render").keys("enter");
        screen
    }),
    ("list_filter_finds_nothing", |size, look| {
        let mut screen = pressed(size, look, "esc /");
        screen.type_in("nowhere").keys("enter");
        screen
    }),
    ("list_readonly", |size, look| {
        let mut screen = Screen::morning(size, look);
        screen.state.setup.readonly = true;
        screen.keys("esc x");
        screen
    }),
    ("list_not_saved", |size, look| {
        let mut screen = Screen::morning(size, look);
        let mut view = morning().remove(3);
        view.is_unsaved = true;
        news(&mut screen, view);
        screen
    }),
    ("list_with_toasts", |size, look| {
        let mut screen = pressed(size, look, "esc");
        notices(&mut screen);
        screen
    }),
    ("list_set_aside", |size, look| {
        let mut screen = pressed(size, look, "esc");
        let text = "default.db was damaged and has been moved to default.damaged-20261121T234545159Z.db: this \
                    session starts empty (its contents are inconsistent); both files are in /home/anna/.local/state/longhaul/sessions";
        screen.event(Event::Session(SessionEvent::Notice(Notice {
            at: Wall(NOW),
            level: NoticeLevel::Warning,
            text: text.to_owned(),
        })));
        screen
    }),
    // The detail pane.
    ("detail_now", |size, look| {
        let mut screen = pressed(size, look, "esc enter");
        screen.read_lives();
        screen
    }),
    ("detail_log", |size, look| {
        pressed(size, look, "esc enter ]")
    }),
    ("detail_result", |size, look| {
        pressed(size, look, "esc enter ] ]")
    }),
    ("detail_arguments", |size, look| {
        pressed(size, look, "esc enter ] ] ]")
    }),
    ("detail_trace", |size, look| {
        let mut screen = pressed(size, look, "esc enter ] ] ] ]");
        let entries = recorded("build-box", "q7m2xk");
        let task = id("q7m2xk");
        screen.event(traffic_read(task, entries));
        screen
    }),
    ("detail_trace_unrecorded", |size, look| {
        let mut screen = pressed(size, look, "esc enter ] ] ] ]");
        let (task, entries) = (id("q7m2xk"), Vec::new());
        screen.event(traffic_read(task, entries));
        screen
    }),
    ("detail_resume", |size, look| {
        pressed(size, look, "esc enter ] ] ] ] ]")
    }),
    ("detail_failed", |size, look| {
        let mut screen = pressed(size, look, "esc");
        screen.go_to("8fw2mc").keys("enter");
        screen
    }),
    ("detail_lost", |size, look| {
        let mut screen = pressed(size, look, "esc");
        screen.go_to("w4ud2e").keys("tab");
        screen
    }),
    ("zoomed_log_wrapped_and_searched", |size, look| {
        let mut screen = pressed(size, look, "esc z ] w T /");
        screen.type_in("processed").keys("enter n");
        screen
    }),
    ("zoomed_result", |size, look| {
        let mut screen = Screen::morning(size, look);
        screen.go_to("c5b8yp").keys("enter");
        assert!(
            screen
                .todo
                .contains(&Command::Read(SavedRead::Result(id("c5b8yp"))))
        );
        screen.event(result_read(id("c5b8yp"), r#"{"content":[{"type":"text","text":"Sunny, 21 °C"},{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}],"structuredContent":{"city":"Lisbon","celsius":21},"isError":false}"#));
        screen
    }),
    ("zoomed_result_folded_and_searched", |size, look| {
        let mut screen = Screen::morning(size, look);
        screen.go_to("c5b8yp").keys("enter");
        screen.event(result_read(id("c5b8yp"), r#"{"content":[],"structuredContent":{"days":[{"celsius":21},{"celsius":19}],"city":"Lisbon","again":"Lisbon, Lisbon"}}"#));
        screen.keys("j j space /").type_in("lisbon").keys("enter");
        screen
    }),
    ("dialog_part", |size, look| {
        let mut screen = Screen::morning(size, look);
        screen.go_to("c5b8yp").keys("enter");
        screen.event(result_read(id("c5b8yp"), r#"{"content":[{"type":"image","data":"iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgCAIAAAA=","mimeType":"image/png"}]}"#));
        screen.keys("s");
        screen
    }),
    ("zoomed_result_markdown", |size, look| {
        let mut screen = Screen::morning(size, look);
        screen.go_to("c5b8yp").keys("enter");
        let words = "# Report for **Lisbon**\n\n> Sunny.\n\n- see [the map](http://bad.example/m) for what is `near`, and the long way round to it\n- 21 degrees\n\n```sh\necho **not bold**\n```\n---\n";
        screen.event(result_read(
            id("c5b8yp"),
            serde_json::json!({"content": [{"type": "text", "text": words}]}).to_string(),
        ));
        screen.keys("w");
        screen
    }),
    // The dialogs.
    ("dialog_quit", |size, look| pressed(size, look, "esc q")),
    ("dialog_cancel", |size, look| pressed(size, look, "esc x")),
    ("dialog_cancel_marked", |size, look| {
        pressed(size, look, "esc space space x")
    }),
    ("dialog_copy", |size, look| pressed(size, look, "esc y")),
    ("dialog_help", |size, look| pressed(size, look, "esc ?")),
    ("dialog_commands", |size, look| {
        let mut screen = pressed(size, look, "esc :");
        screen.type_in("tools");
        screen
    }),
    ("dialog_edit", |size, look| pressed(size, look, "esc e")),
    ("dialog_filter", |size, look| pressed(size, look, "esc /")),
    ("dialog_stop_now", |size, look| {
        let mut screen = Screen::morning(size, look);
        screen.go_to("t9x4gz").keys("p");
        screen
    }),
    ("dialog_what_now_lost", |size, look| {
        let mut screen = Screen::morning(size, look);
        screen.go_to("w4ud2e").keys("enter");
        screen
    }),
    ("dialog_what_now_unknown", |size, look| {
        let mut screen = Screen::morning(size, look);
        let mut unknown = morning().remove(3);
        unknown.task.status = Status::Unknown(UnknownReason::BeforeFirstId);
        unknown.contact = Connectivity::Idle;
        unknown.if_cut = None;
        screen.keys("esc").wait(2_000);
        news(&mut screen, unknown);
        screen.wait(2_000).go_to("q7m2xk").keys("enter");
        screen
    }),
    ("dialog_break", |size, look| {
        let mut screen = demo(size, look);
        screen.keys("b");
        screen
    }),
    // The questions.
    ("question_form", |size, look| {
        Screen::asked(size, look, &[ROLLOUT])
    }),
    ("question_field", |size, look| {
        let mut screen = Screen::asked(size, look, &[ROLLOUT, VISIT]);
        screen.keys("tab tab tab tab right space");
        screen
    }),
    ("question_complaints", |size, look| {
        let mut screen = Screen::asked(size, look, &[ROLLOUT]);
        screen.keys("tab 1 2 tab o k ctrl-s");
        screen
    }),
    ("question_button", |size, look| {
        let mut screen = Screen::asked(size, look, &[r#"{"message":"Go on?"}"#]);
        screen.keys("tab right");
        screen
    }),
    ("question_page", |size, look| {
        let mut screen = Screen::asked(size, look, &[VISIT]);
        screen.keys("o");
        screen
    }),
    ("question_in_the_now_tab", |size, look| {
        let mut screen = Screen::morning(size, look);
        screen.go_to("k3v9ra").keys("z");
        screen
    }),
    ("resume_of_a_server_task", |size, look| {
        let mut screen = Screen::morning(size, look);
        screen.news(of_a_server_task());
        screen.go_to("pd6xw8").keys("z ] ] ] ] ]");
        screen
    }),
    ("list_server_task", |size, look| {
        let mut screen = Screen::morning(size, look);
        screen.news(of_a_server_task());
        screen
    }),
    // The new call.
    ("call_servers", |size, look| pressed(size, look, "esc n")),
    ("call_tools_asked", |size, look| {
        pressed(size, look, "esc n enter")
    }),
    ("call_tools", |size, look| {
        let mut screen = pressed(size, look, "esc n enter");
        screen.answer_tools();
        screen
    }),
    ("call_form", call_form),
    ("call_form_nested", |size, look| {
        let mut screen = pressed(size, look, "esc n enter");
        let mut tools = tools();
        tools[0].input_schema = r#"{"required": ["to"], "properties": {
            "to": {"type": "object", "required": ["street"], "properties": {
                "street": {"type": "string"}, "when": {"type": "string", "format": "date-time"}}},
            "tags": {"type": "array", "items": {"type": "string"}},
            "shape": {"oneOf": [
                {"title": "Circle", "type": "object", "required": ["r"], "properties": {"r": {"type": "number"}}},
                {"title": "Box", "type": "object", "properties": {"w": {"type": "number"}}}]},
            "free": {"type": "object"}}}"#
            .to_owned();
        screen.answer_with(tools).keys("enter enter tab");
        screen
            .type_in("eu")
            .keys("enter")
            .type_in("us")
            .keys("tab enter tab");
        screen.type_in("{\n  \"a\": 1,\n}").keys("ctrl-s");
        screen
    }),
    ("call_form_complaints", |size, look| {
        let mut screen = call_form(size, look);
        screen.keys("down x down down down ctrl-s");
        screen
    }),
    ("call_form_last_field", |size, look| {
        let mut screen = call_form(size, look);
        screen.keys("down down down down down down down down");
        screen
    }),
    ("call_form_long", |size, look| {
        let mut screen = pressed(size, look, "esc n down down enter");
        let names = (1..=20).map(|n| format!(r#""argument_{n}":{{"type":"string","description":"the {n}th of many, told at a length that no line of a small screen has room for"}}"#));
        let mut tool = tools().remove(1);
        tool.input_schema = format!(
            r#"{{"type":"object","required":["argument_3"],"properties":{{{}}}}}"#,
            names.collect::<Vec<_>>().join(",")
        );
        screen.answer_with(vec![tool]).keys("enter");
        screen.keys("down down down down down down down down down down down down down down");
        screen
    }),
    ("call_form_json", |size, look| {
        let mut screen = call_form(size, look);
        screen.type_in("eu-2026").keys("ctrl-r");
        screen
    }),
    ("call_again", |size, look| {
        let mut screen = pressed(size, look, "esc R");
        screen.answer_tools();
        screen
    }),
    ("dialog_repeat", |size, look| {
        let mut screen = pressed(size, look, "esc R");
        let mut wiping = tools();
        for tool in &mut wiping {
            tool.destructive = Some(true);
        }
        screen.answer_with(wiping);
        screen.keys("ctrl-s");
        screen
    }),
    ("call_refused", |size, look| {
        let mut screen = pressed(size, look, "esc R");
        let mut safe = tools();
        for tool in &mut safe {
            tool.idempotent = Some(true);
        }
        screen.answer_with(safe);
        screen.todo.clear();
        screen.keys("ctrl-s");
        let Some(Command::Request(ask, SessionRequest::Start(call))) = screen.todo.first().cloned()
        else {
            panic!("{:?}", screen.todo);
        };
        assert_eq!(call.origin, Some(id("q7m2xk")));
        screen.event(Event::Session(SessionEvent::Response {
            request: ask,
            outcome: Err(RequestError::CannotSave(
                "could not write the session file: no space left on device".to_owned(),
            )),
        }));
        screen
    }),
    // The other panes.
    ("find_tool", |size, look| {
        let mut screen = pressed(size, look, "esc 2");
        let mut safe = tools();
        (safe[0].destructive, safe[1].read_only) = (Some(true), Some(true));
        screen.answer_with(safe).keys("/").type_in("build-box a");
        screen
    }),
    ("pane_tools_hints", |size, look| {
        let mut screen = pressed(size, look, "esc 2");
        let mut says = tools();
        (says[0].destructive, says[0].idempotent) = (Some(true), Some(true));
        screen.answer_with(says);
        screen
    }),
    ("pane_tools", |size, look| {
        let mut screen = pressed(size, look, "esc 2");
        screen.answer_tools();
        screen
    }),
    ("pane_servers", |size, look| pressed(size, look, "esc 3")),
    ("pane_messages", |size, look| {
        let mut screen = pressed(size, look, "esc");
        notices(&mut screen);
        screen.keys("4");
        screen
    }),
];

#[test]
fn every_scene_at_every_size_in_every_mode() {
    for (scene, build) in SCENES {
        for (size, size_name) in [(WIDE, "120x36"), (USUAL, "80x24"), (SMALL, "60x15")] {
            let name = format!("{scene}_{size_name}");
            let pictures = in_all_modes(&name, |look| build(size, look).draw());
            snapshot(&name, &pictures);
        }
    }
}

#[test]
fn a_too_small_terminal_shows_the_required_size() {
    let pictures = in_all_modes("too_small", |look| Screen::new((30, 8), look).draw());
    snapshot("too_small", &pictures);
}

fn snapshot(name: &str, pictures: &str) {
    insta::with_settings!({
        snapshot_path => "../snapshots",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name, pictures);
    });
}

/// The picture in colour, then what is different without colour, then what is different from that in ASCII.
fn in_all_modes(name: &str, draw: impl Fn(Look) -> String) -> String {
    let mut pictures = String::new();
    let mut before: Option<(String, String)> = None;
    for (mode, look) in [("colour", colour()), ("mono", mono()), ("ascii", ascii())] {
        let drawn = draw(look);
        let (text, styles) = drawn.split_once("--- styles\n").unwrap();
        if mode != "colour" {
            // Only what every terminal has, on whatever ground it has.
            let words = styles.split(|c: char| !c.is_ascii_alphabetic());
            for word in words.filter(|word| !word.is_empty()) {
                assert!(
                    ["bold", "dim", "underlined", "reversed"].contains(&word),
                    "{name}: {word}\n{drawn}"
                );
            }
        }
        if mode == "ascii" {
            assert!(drawn.is_ascii(), "{name}\n{drawn}");
        }
        let (old_text, old_styles) = before.unwrap_or_default();
        for (what, now, old) in [("text", text, &old_text), ("styles", styles, &old_styles)] {
            let _ = if now == old {
                writeln!(pictures, "--- {mode} {what}: the same")
            } else {
                write!(pictures, "--- {mode} {what}\n{now}")
            };
        }
        before = Some((text.to_owned(), styles.to_owned()));
    }
    pictures
}

/// The morning after, and some keys.
fn pressed(size: (u16, u16), look: Look, keys: &str) -> Screen {
    let mut screen = Screen::morning(size, look);
    screen.keys(keys);
    screen
}

fn call_form(size: (u16, u16), look: Look) -> Screen {
    let mut screen = pressed(size, look, "esc n enter");
    screen.answer_tools().keys("enter");
    screen
}

fn news(screen: &mut Screen, view: TaskView) {
    screen.event(Event::Session(SessionEvent::Task(Arc::new(view))));
}

/// A call that the server made a task of: no steps, but words and a time.
fn of_a_server_task() -> TaskView {
    let mut view = morning().remove(6);
    view.task.progress = None;
    view.task.resumability.task = true;
    view.task.server_task = Some(server_task(72 * MINUTE, 3 * HOUR));
    view.if_cut = Some(CutReason::Checkpoint { step: Some(30.0) }.into());
    view
}

/// One more than toasts may stand at a time.
fn notices(screen: &mut Screen) {
    for (level, words) in [
        (
            NoticeLevel::Info,
            "build-box: reconnected after 2.1 s, 3 replayed, 0 missing",
        ),
        (
            NoticeLevel::Warning,
            "lab: could not reach lab (connection refused) - retrying in 4 s",
        ),
        (
            NoticeLevel::Error,
            "could not write the session file: no space left on device",
        ),
        (
            NoticeLevel::Info,
            "the fourth, which pushes the first out of sight",
        ),
    ] {
        screen.event(Event::Session(SessionEvent::Notice(Notice {
            at: Wall(NOW),
            level,
            text: words.to_owned(),
        })));
    }
}

/// What the morning has not: every other contact, asked and outcome, and names that are hard to set.
fn every_state(size: (u16, u16), look: Look) -> Screen {
    let mut screen = Screen::new(size, look);
    screen.event(Event::Restored {
        watched_at: None,
        views: Vec::new(),
        servers: servers(),
        saved_at: None,
    });
    let base = || morning().remove(3);
    let named = |name: &str, title: &str| {
        let mut view = base();
        view.task.id = id(name);
        view.task.name = Some(title.to_owned());
        view
    };
    let mut views = Vec::new();
    for (name, window) in [
        ("aaaaa2", UnknownReason::BeforeFirstId),
        ("aaaaa3", UnknownReason::NoIds),
        ("aaaaa4", UnknownReason::HttpStatus(502)),
    ] {
        let mut view = named(name, "unknown one");
        view.task.status = Status::Unknown(window);
        view.contact = Connectivity::Idle;
        view.if_cut = None;
        views.push(view);
    }
    let mut view = named("aaaaa5", "lost without a restart");
    view.task.status = Status::Lost(LostReason::ReplayGone {
        server_text: Some("no such event in the store, it was cleaned at midnight".to_owned()),
    });
    views.push(settled(view.clone(), view.task.status.clone(), 3 * HOUR));
    let mut view = named("bbbbb2", "sign in first");
    view.contact = Connectivity::NeedsLogin;
    views.push(view);
    let mut view = named("bbbbb3", "nothing comes");
    view.contact = Connectivity::Quiet {
        last_byte: ago(95 * SECOND),
    };
    views.push(view);
    let mut view = named("bbbbb4", "nobody is there");
    view.contact = Connectivity::Offline {
        since: ago(40 * MINUTE),
        next: Wall(NOW + 26 * SECOND),
        why: "connection refused".to_owned(),
    };
    views.push(view);
    let mut view = named("bbbbb5", "数据处理 of the year");
    view.task.status = Status::Paused;
    views.push(view);
    for (name, what) in [
        ("bbbbb6", ControlKind::Resuming),
        ("bbbbb7", ControlKind::Cancelling),
    ] {
        let mut view = named(name, "asked for something");
        view.task.control = Some(ControlRequest {
            what,
            at: ago(3 * SECOND),
        });
        views.push(view);
    }
    let mut view = named("ccccc2", "not sent yet");
    view.task.progress = None;
    view.if_cut = None;
    for attempt in &mut view.task.attempts {
        attempt.phase = Phase::Queued;
    }
    views.push(view);
    let mut view = named(
        "ccccc3",
        "a name that is much longer than any column can be",
    );
    view.task.progress = progress(0.02, Some(1.0), Some("warming up the model of the world"));
    views.push(view);
    let mut view = named("ccccc4", "big numbers");
    view.task.progress = progress(3_456_789.0, Some(45_000_000.0), None);
    views.push(view);
    for (name, status) in [("ddddd2", Status::Completed), ("ddddd3", Status::Cancelled)] {
        views.push(settled(named(name, "over"), status, 26 * HOUR));
    }
    for view in views {
        news(&mut screen, view);
    }
    // Rows move only once no key was pressed for a while.
    screen.wait(2_000);
    screen
}

/// Opened again without a network.
fn restored_offline(size: (u16, u16), look: Look) -> Screen {
    let mut screen = Screen::new(size, look);
    let views = morning()
        .into_iter()
        .map(|mut view| {
            if !view.task.status.is_settled() {
                view.contact = Connectivity::Unwatched {
                    as_of: ago(38 * SECOND),
                };
            }
            Arc::new(view)
        })
        .collect();
    screen.event(Event::Restored {
        watched_at: Some(ago(38 * SECOND)),
        views,
        servers: vec![server(
            "build-box",
            LinkState::Down {
                since: ago(38 * SECOND),
                tries: 5,
                next: Wall(NOW + 3 * SECOND),
                why: "no route".to_owned(),
            },
        )],
        saved_at: Some(ago(38 * SECOND)),
    });
    screen
}

fn demo(size: (u16, u16), look: Look) -> Screen {
    let mut screen = Screen::new(size, look);
    screen.state.setup.is_demo = true;
    screen.state.setup.session = "demo".to_owned();
    screen.event(Event::Session(SessionEvent::Driver(SessionDriver {
        pid: 41_231,
        is_us: true,
        is_keeper: false,
        since: Wall(0),
    })));
    screen.event(Event::Session(SessionEvent::Server(Arc::new(server(
        "demo",
        LinkState::Live,
    )))));
    for (place, name) in ["q7m2xk", "m2hn5t", "c5b8yp"].into_iter().enumerate() {
        let mut view = morning().remove(3);
        view.task.id = id(name);
        view.task.server = ServerName::new("demo");
        view.task.arguments = format!(
            r#"{{"dataset_name":"{}","total_records":{}}}"#,
            ["quick", "usual", "long"][place],
            [50, 300, 1000][place]
        );
        view.task.progress = progress(5.0, Some([50.0, 300.0, 1000.0][place]), None);
        news(&mut screen, view);
    }
    screen.wait(1_000);
    screen
}

#[test]
fn the_demo_cuts_the_network_by_two_keys() {
    let mut screen = demo(WIDE, colour());
    screen.keys("b");
    screen.todo.clear();
    screen.keys("c");
    assert_eq!(screen.todo, [Command::InjectFault("cut 5".to_owned())]);
}
