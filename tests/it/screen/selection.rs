//! A key acts on what the user sees selected, and never on what takes its place; what the user typed stays.

use longhaul::{
    app::{Command, Event, ListRow, Pane, visible_lanes},
    domain::{SavedRead, SessionEvent, SessionRequest, Status, TaskId},
};

use super::support::*;

fn is_listed(screen: &Screen, name: &str) -> bool {
    let row = ListRow::Task(id(name));
    screen.state.list.rows.contains(&row)
}

#[test]
fn the_selected_item_of_a_dialog_stays_selected() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("q").wait(500).keys("j j");
    screen.todo.clear();
    // With the call that would be lost, the item before the selected one goes.
    screen.news(settled(morning().remove(6), Status::Completed, 0));
    screen.keys("enter");
    let cancels = |ask: &SessionRequest| matches!(ask, SessionRequest::Cancel(_));
    assert!(!asks(&screen).iter().any(cancels));
    assert!(screen.state.exit.note.is_some());
}

#[test]
fn a_task_that_stops_matching_stays_under_the_cursor() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc /").type_in("status:running").keys("enter");
    screen.go_to("q7m2xk").keys("z");
    screen.news(settled(morning().remove(3), Status::Completed, 0));
    screen.wait(3_000);
    assert_eq!(screen.state.list.cursor, Some(id("q7m2xk")));
    screen.keys("esc j").wait(3_000);
    assert!(!is_listed(&screen, "q7m2xk"), "the cursor has left it");
    // A filter that the user changes hides it at once.
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc").go_to("q7m2xk");
    screen.keys("/").type_in("render").keys("enter");
    assert!(!is_listed(&screen, "q7m2xk"));
}

fn selected_lane(screen: &Screen) -> TaskId {
    let (lanes, ..) = visible_lanes(&screen.state, screen.now);
    let selected = lanes.iter().find(|lane| lane.is_selected);
    selected.unwrap().task.view.task.id.clone()
}

#[test]
fn a_lane_whose_task_is_hidden_opens_no_other_task() {
    let mut screen = Screen::morning(WIDE, colour());
    screen
        .keys("esc /")
        .type_in("server:build-box")
        .keys("enter");
    screen.keys("5 g");
    let lane = selected_lane(&screen);
    assert!(!is_listed(&screen, lane.as_str()));
    screen.keys("enter");
    assert_eq!(
        answer(&screen),
        format!("{lane} is hidden by the filter or folded")
    );
    assert!(screen.state.dialogs.stack.is_empty() && !screen.state.detail.is_zoomed);
}

#[test]
fn a_command_acts_on_the_task_that_the_pane_selects() {
    for (word, is_run) in [("pause", true), ("rm", false)] {
        let mut screen = Screen::morning(WIDE, colour());
        screen.keys("esc").go_to("m2hn5t").keys("5 g");
        while selected_lane(&screen) != id("q7m2xk") {
            let before = selected_lane(&screen);
            screen.keys("j");
            assert_ne!(selected_lane(&screen), before);
        }
        screen.todo.clear();
        screen.keys(":").type_in(word).keys("enter");
        let pause = SessionRequest::Pause(id("q7m2xk"));
        assert_eq!(asks(&screen).contains(&pause), is_run);
        assert_eq!(screen.state.list.cursor, Some(id("q7m2xk")));
    }
    // These panes select no task.
    for pane in ["2", "3", "4"] {
        for word in ["rm", "pause", "result"] {
            let mut screen = Screen::morning(WIDE, colour());
            screen.keys("esc").go_to("h7r2dd").keys(pane);
            screen.todo.clear();
            screen.keys(":").type_in(word).keys("enter");
            assert_eq!(asks(&screen), [], "{pane} {word}");
            assert_eq!(answer(&screen), "choose a task first; press 1 for the list");
            assert_ne!(screen.state.pane, Pane::Tasks);
        }
    }
}

#[test]
fn tools_that_arrive_late_leave_what_was_typed() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.go_to("q7m2xk").keys("R").type_in(",");
    let typed = call_form(&screen).raw.clone();
    assert!(
        typed
            .as_ref()
            .is_some_and(|raw| raw.text().contains("eu-2026"))
    );
    screen.answer_tools();
    let form = call_form(&screen);
    assert!(form.tool.is_some() && form.raw == typed);
    // Untouched, it becomes fields.
    let mut screen = Screen::morning(WIDE, colour());
    screen.go_to("q7m2xk").keys("R").answer_tools();
    assert!(call_form(&screen).raw.is_none());
}

#[test]
fn a_draft_outlives_a_change_of_its_tool() {
    let tool = |description: &str, schema: &str| {
        let mut tool = tools().remove(1);
        tool.description = Some(description.to_owned());
        tool.input_schema = schema.to_owned();
        tool
    };
    let city = r#"{"properties": {"city": {"type": "string"}}}"#;
    let town = r#"{"properties": {"town": {"type": "string"}}}"#;
    for (schema, is_field) in [(city, true), (town, false)] {
        let mut screen = Screen::morning(WIDE, colour());
        screen.go_to("q7m2xk").keys("esc n enter");
        screen
            .answer_with(vec![tool("yesterday", city)])
            .keys("enter");
        screen.type_in("Lisbon").keys("esc esc esc");
        let server = call_server(&screen);
        screen.state.tools.get_mut(&server).unwrap().list = vec![tool("today", schema)];
        screen.keys("n enter enter");
        let form = call_form(&screen);
        let arguments = match form.arguments() {
            Ok((arguments, _)) => arguments,
            // Only the schema objects.
            Err(errors) => errors.arguments.unwrap(),
        };
        assert_eq!(arguments["city"], "Lisbon", "{schema}");
        assert_eq!(form.raw.is_none(), is_field, "{schema}");
    }
}

fn call_server(screen: &Screen) -> longhaul::domain::ServerName {
    let view = &screen.state.tasks[&id("q7m2xk")].view;
    view.task.server.clone()
}

#[test]
fn a_form_closed_while_its_call_is_saved_is_kept_if_that_fails() {
    let schema = r#"{"properties": {"city": {"type": "string"}}}"#;
    for is_saved in [false, true] {
        let mut screen = Screen::morning(WIDE, colour());
        let mut tool = tools().remove(1);
        tool.input_schema = schema.to_owned();
        screen.go_to("q7m2xk").keys("esc n enter");
        screen.answer_with(vec![tool]).keys("enter");
        screen.type_in("Lisbon").keys("ctrl-s esc");
        let sent = screen.todo.iter().rev().find_map(|command| match command {
            Command::Request(ask, SessionRequest::Start(call)) => Some((*ask, call.id.clone())),
            _ => None,
        });
        let (request, task) = sent.unwrap();
        let outcome = if is_saved {
            Ok(longhaul::domain::SessionResponse::Started(task))
        } else {
            let why = "disk full".to_owned();
            Err(longhaul::domain::RequestError::CannotSave(why))
        };
        screen.event(Event::Session(SessionEvent::Response { request, outcome }));
        screen.keys("esc esc esc n enter enter");
        assert_eq!(screen.draw().contains("Lisbon"), !is_saved);
        assert!(call_form(&screen).sent.is_none());
    }
}

#[test]
fn a_pause_that_is_over_leaves_nothing_to_stop() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.go_to("t9x4gz").keys("p").wait(500);
    assert!(screen.draw().contains("Stop the call now?"));
    let mut paused = screen.state.tasks[&id("t9x4gz")].view.as_ref().clone();
    (paused.task.status, paused.task.control) = (Status::Paused, None);
    screen.news(paused);
    screen.todo.clear();
    screen.keys("s");
    assert_eq!(asks(&screen), []);
    assert!(answer(&screen).contains("no pause is pending"));
}

#[test]
fn a_result_that_could_not_be_read_is_asked_for_again() {
    let mut screen = Screen::morning(WIDE, colour());
    let reads = |screen: &mut Screen| {
        let of = |command: &Command| matches!(command, Command::Read(SavedRead::Result(_)));
        screen.todo.drain(..).filter(of).count()
    };
    screen.go_to("c5b8yp");
    screen.todo.clear();
    screen.keys("enter");
    assert_eq!(reads(&mut screen), 1);
    screen.event(Event::Read(SavedRead::Result(id("c5b8yp")), None));
    assert!(screen.draw().contains("could not be read"));
    screen.wait(5_000);
    assert_eq!(reads(&mut screen), 0, "not again and again");
    screen.keys("[ ]");
    assert_eq!(reads(&mut screen), 1);
}

#[test]
fn a_command_for_one_task_takes_no_other() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc /").type_in("server:ci").keys("enter");
    screen.keys(":").type_in("edit q7m2xk pd6xw8").keys("enter");
    assert_eq!(answer(&screen), "edit takes one task");
    assert!(screen.state.dialogs.stack.is_empty());
}
