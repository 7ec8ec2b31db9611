//! Snapshots: text and styles, at fixed times and sizes.

use std::sync::Arc;

use longhaul::{
    app::{Colour, Command, Event, Tab},
    domain::{
        Ask, Contact, LinkState, News, Notice, NoticeLevel, Refused, ServerName, Status, Wall,
        Window,
    },
};

use crate::support::*;

macro_rules! snapshot {
    ($name:expr, $drawn:expr) => {
        insta::with_settings!({snapshot_path => "../snapshots", prepend_module_to_snapshot => false}, {
            insta::assert_snapshot!($name, $drawn);
        });
    };
}

#[test]
fn the_morning_after_in_all_sizes_and_modes() {
    for (size, size_name) in [(WIDE, "120x36"), (USUAL, "80x24"), (SMALL, "60x15")] {
        for (look, look_name) in [(colour(), "colour"), (mono(), "mono"), (ascii(), "ascii")] {
            let screen = Screen::morning(size, look);
            let name = format!("morning_{size_name}_{look_name}");
            let drawn = screen.draw();
            if look.ascii {
                assert!(drawn.is_ascii(), "{drawn}");
            }
            if look.colour == Colour::Mono {
                for word in ["red", "cyan", "yellow", "green"] {
                    let styles = drawn.split("--- styles").nth(1).unwrap();
                    assert!(!styles.contains(&format!(" {word}")), "{styles}");
                }
            }
            snapshot!(name, drawn);
        }
    }
}

#[test]
fn each_tab_of_the_detail_pane() {
    for (tab, name) in
        Tab::ALL
            .into_iter()
            .zip(["now", "log", "result", "arguments", "trace", "resume"])
    {
        let mut screen = Screen::morning(WIDE, colour());
        screen.keys("esc tab");
        for _ in 0..Tab::ALL.iter().position(|other| *other == tab).unwrap() {
            screen.keys("]");
        }
        snapshot!(format!("detail_{name}"), screen.draw());
    }
}

#[test]
fn the_log_zoomed_with_wrap_and_search_and_without_times() {
    let mut screen = Screen::morning(USUAL, colour());
    screen
        .keys("esc z ] w T / ")
        .type_in("processed")
        .keys("enter n");
    snapshot!("log_zoomed_80x24", screen.draw());
}

#[test]
fn a_result_is_laid_out_as_text_first() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.go_to("c5b8yp").keys("enter");
    assert!(screen.todo.contains(&Command::ReadResult(id("c5b8yp"))));
    screen.event(Event::ResultRead {
        task: id("c5b8yp"),
        json: Some(
            r#"{"content":[{"type":"text","text":"Sunny, 21 °C"},{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}],"structuredContent":{"city":"Lisbon","celsius":21},"isError":false}"#
                .to_owned(),
        ),
    });
    snapshot!("result_zoomed", screen.draw());
}

#[test]
fn each_dialog() {
    for (name, keys) in [
        ("leave", "q"),
        ("cancel", "x"),
        ("copy", "y"),
        ("help", "?"),
        ("palette", ":"),
        ("edit", "e"),
        ("filter", "/"),
    ] {
        let mut screen = Screen::morning(WIDE, colour());
        screen.keys("esc").keys(keys);
        snapshot!(format!("dialog_{name}"), screen.draw());
    }
    let mut screen = Screen::morning(WIDE, colour());
    screen.go_to("t9x4gz").keys("p");
    snapshot!("dialog_stop_now", screen.draw());
    screen.keys("esc").go_to("w4ud2e").keys("enter");
    snapshot!("dialog_what_now_lost", screen.draw());
    let mut unknown = morning().remove(3);
    unknown.task.status = Status::Unknown(Window::BeforeFirstId);
    unknown.contact = Contact::Idle;
    screen.keys("esc").wait(2_000);
    screen.event(Event::News(News::Task(Arc::new(unknown))));
    screen.wait(2_000).go_to("q7m2xk").keys("enter");
    snapshot!("dialog_what_now_unknown", screen.draw());
}

#[test]
fn the_leave_dialog_in_other_sizes_and_modes() {
    for (size, look, name) in [
        (USUAL, mono(), "80x24_mono"),
        (USUAL, ascii(), "80x24_ascii"),
        (SMALL, colour(), "60x15_colour"),
    ] {
        let mut screen = Screen::morning(size, look);
        screen.keys("q");
        snapshot!(format!("dialog_leave_{name}"), screen.draw());
    }
}

#[test]
fn a_new_call_from_server_to_start() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc n");
    snapshot!("call_server", screen.draw());
    screen.keys("enter");
    snapshot!("call_tools_asked", screen.draw());
    screen.answer_tools();
    snapshot!("call_tools", screen.draw());
    screen.keys("enter");
    snapshot!("call_form", screen.draw());
    screen.keys("down x down down down");
    screen.keys("ctrl-s");
    snapshot!("call_form_complaints", screen.draw());
    screen.keys("up up up up").type_in("eu-2026").keys("ctrl-r");
    snapshot!("call_form_json", screen.draw());
    let mut screen = Screen::morning(USUAL, ascii());
    screen.keys("esc R").answer_tools();
    snapshot!("call_again_80x24_ascii", screen.draw());
    let mut screen = Screen::morning(SMALL, colour());
    screen.keys("esc R").answer_tools();
    snapshot!("call_again_60x15", screen.draw());
}

#[test]
fn the_other_panes() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc 2");
    screen.answer_tools();
    snapshot!("pane_tools", screen.draw());
    screen.keys("3");
    snapshot!("pane_servers", screen.draw());
    for (level, words) in [
        (
            NoticeLevel::Info,
            "build-box: back after 2.1 s, 3 replayed, 0 missing",
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
        screen.event(Event::News(News::Notice(Notice {
            at: Wall(NOW),
            level,
            text: words.to_owned(),
        })));
    }
    screen.keys("4");
    snapshot!("pane_messages_with_toasts", screen.draw());
}

#[test]
fn each_state_of_the_whole_screen() {
    let empty = Screen::new(WIDE, colour());
    snapshot!("state_empty", empty.draw());
    let empty = Screen::new(SMALL, ascii());
    snapshot!("state_empty_60x15_ascii", empty.draw());
    let tiny = Screen::new((30, 8), colour());
    snapshot!("state_too_small", tiny.draw());

    let mut restored = Screen::new(USUAL, colour());
    let views = morning()
        .into_iter()
        .map(|mut view| {
            if !view.task.status.is_settled() {
                view.contact = Contact::Unwatched {
                    as_of: ago(38 * SECOND),
                };
            }
            Arc::new(view)
        })
        .collect();
    restored.event(Event::Restored {
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
    snapshot!("state_restored_offline_80x24", restored.draw());
    restored.state.setup.look = ascii();
    snapshot!("state_restored_offline_80x24_ascii", restored.draw());

    let mut frozen = Screen::morning(WIDE, colour());
    frozen.keys("esc Z").wait(5_000);
    frozen.event(Event::News(News::Task(Arc::new(morning().remove(3)))));
    snapshot!("state_frozen", frozen.draw());

    let mut needs = Screen::morning(USUAL, mono());
    needs.keys("esc !");
    snapshot!("state_needs_you_only_80x24_mono", needs.draw());

    let mut marked = Screen::morning(WIDE, colour());
    marked
        .keys("esc space space / ")
        .type_in("render")
        .keys("enter");
    snapshot!("state_marked_and_filtered", marked.draw());

    let mut readonly = Screen::morning(USUAL, colour());
    readonly.state.setup.readonly = true;
    readonly.keys("esc x");
    snapshot!("state_readonly_80x24", readonly.draw());

    let mut unsaved = Screen::morning(USUAL, colour());
    let mut view = morning().remove(3);
    view.is_unsaved = true;
    unsaved.event(Event::News(News::Task(Arc::new(view))));
    snapshot!("state_not_saved_80x24", unsaved.draw());
}

#[test]
fn the_demo_says_what_to_try() {
    let mut screen = Screen::new(WIDE, colour());
    screen.state.setup.is_demo = true;
    screen.state.setup.session = "demo".to_owned();
    screen.event(Event::News(News::Driver {
        pid: 41_231,
        is_us: true,
    }));
    screen.event(Event::News(News::Server(Arc::new(server(
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
        screen.event(Event::News(News::Task(Arc::new(view))));
    }
    screen.wait(1_000);
    snapshot!("demo", screen.draw());
    screen.keys("b");
    snapshot!("demo_break", screen.draw());
    screen.todo.clear();
    screen.keys("c");
    assert_eq!(screen.todo, [Command::Break("cut 5".to_owned())]);
}

#[test]
fn a_refused_call_says_so_in_its_form() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc R").answer_tools();
    screen.todo.clear();
    screen.keys("ctrl-s");
    let Some(Command::Ask(ask, Ask::Start(call))) = screen.todo.first().cloned() else {
        panic!("{:?}", screen.todo);
    };
    assert_eq!(call.origin, Some(id("q7m2xk")));
    screen.event(Event::News(News::Answer {
        ask,
        outcome: Err(Refused::CannotSave(
            "could not write the session: no space left on device".to_owned(),
        )),
    }));
    snapshot!("call_refused", screen.draw());
}
