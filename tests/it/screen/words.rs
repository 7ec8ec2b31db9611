//! What keys say they did, to how many and where; and that the screen has one word for one thing.

use longhaul::{
    app::{Command, Event, Focus, Tab, TerminalCommand},
    domain::{SessionRequest, Status, TaskId},
};

use super::support::*;

/// What a terminal shows after these screens were drawn one after the other.
fn terminal(screens: &[&Screen]) -> String {
    let mut bytes = Vec::new();
    let (columns, rows) = screens[0].size;
    let area = ratatui::layout::Rect::new(0, 0, columns, rows);
    let backend = ratatui::backend::CrosstermBackend::new(&mut bytes);
    let options = ratatui::TerminalOptions {
        viewport: ratatui::Viewport::Fixed(area),
    };
    let mut drawing = ratatui::Terminal::with_options(backend, options).unwrap();
    for screen in screens {
        drawing
            .draw(|frame| longhaul::ui::view(frame, &screen.state, screen.now))
            .unwrap();
    }
    drop(drawing);
    let mut shown = vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 0);
    shown.process(&bytes);
    shown.screen().contents()
}

#[test]
fn nothing_of_a_grapheme_of_several_cells_is_left_behind() {
    let named = |name: &str| {
        let mut screen = Screen::morning(WIDE, colour());
        // Not the selected row, which is drawn whole again.
        let mut view = morning().remove(4);
        view.task.name = Some(name.to_owned());
        screen.news(view);
        screen
    };
    let plain = named("x");
    let hostile = "\u{600}S\u{600}A\u{600}F\u{600}E";
    for name in [hostile, "क्षत्रिय ज्ञान", "\u{1100}\u{1100}\u{1100}x"] {
        let named = named(name);
        let all = terminal(&[&plain, &named, &plain]);
        assert_eq!(all, terminal(&[&plain]), "{name}");
        assert_eq!(terminal(&[&plain, &named]), terminal(&[&named]), "{name}");
    }
}

fn asked(screen: &Screen) -> usize {
    let is_ask = |command: &&Command| matches!(command, Command::Request(_, ask) if !matches!(ask, SessionRequest::Seen(_)));
    screen.todo.iter().filter(is_ask).count()
}

#[test]
fn clears_marks_only_of_tasks_the_key_acted_on() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc a");
    screen.todo.clear();
    screen.keys("x").wait(500).keys("y");
    assert_eq!(asked(&screen), 5);
    assert_eq!(
        answer(&screen),
        "cancel requested for 5 tasks; 4 skipped, still marked"
    );
    assert_eq!(screen.state.list.marks.len(), 4);
    let has_ended = |name: &TaskId| {
        let task = screen.state.tasks.get(name);
        task.is_some_and(|task_row| task_row.view.task.status.is_settled())
    };
    assert!(screen.state.list.marks.iter().all(has_ended));
    screen.keys("p");
    assert_eq!(answer(&screen), "nothing to pause; 4 skipped, still marked");
    // One that is marked is like several.
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("space");
    assert_eq!(screen.state.list.marks.len(), 1);
    screen.keys("p");
    assert_eq!(answer(&screen), "pause requested for q7m2xk");
    assert!(screen.state.list.marks.is_empty());
}

#[test]
fn copies_the_ids_of_the_marked_tasks() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("space space y");
    assert!(screen.draw().contains("ids of the 2 marked tasks"));
    screen.todo.clear();
    screen.keys("m");
    let marks = screen.state.list.marks.iter();
    let marked: Vec<&str> = marks.map(TaskId::as_str).collect();
    assert_eq!(
        screen.todo,
        [Command::Terminal(TerminalCommand::Copy(marked.join(" ")))]
    );
}

#[test]
fn a_search_names_the_context_of_a_key() {
    let line = |screen: &mut Screen, words: &str| {
        screen.keys(":").type_in(words);
        let drawn = screen.draw();
        screen.keys("esc");
        let (row, typed) = (format!(" {words} "), format!(": {words}"));
        let is_row = |line: &&str| line.contains(&row) && !line.contains(&typed);
        drawn.lines().find(is_row).expect(&drawn).to_owned()
    };
    let mut screen = Screen::morning(WIDE, colour());
    let in_list = line(&mut screen, "answer");
    assert!(in_list.contains("(in the detail pane) "), "{in_list}");
    let marks = line(&mut screen, "mark-all");
    assert!(
        marks.contains(" a ") && !marks.contains("(in the"),
        "{marks}"
    );
    screen.keys("tab");
    assert_eq!(screen.state.detail.focus, Focus::Detail);
    let in_detail = line(&mut screen, "answer");
    assert!(!in_detail.contains("(in the"), "{in_detail}");
    let marks = line(&mut screen, "mark-all");
    assert!(marks.contains("(in the list and most panes) "), "{marks}");
}

#[test]
fn a_group_is_called_as_its_rows_are() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("esc B B");
    let drawn = screen.draw();
    for heading in [
        "ASKING 1",
        "COMPLETED 1",
        "RUNNING 4",
        "LOST 1",
        "FAILED 1",
        "CANCELLED 1",
    ] {
        assert!(
            drawn.contains(&format!(" {heading} ")),
            "{heading}: {drawn}"
        );
    }
    assert!(!drawn.contains("INPUT-REQUIRED"), "{drawn}");
    for (status, word) in [
        (Status::Completed, "completed"),
        (Status::InputRequired, "asking"),
    ] {
        assert_eq!(status.row_label(), word);
    }
}

#[test]
fn a_message_never_covers_the_row_under_the_cursor() {
    let rows = |screen: &Screen, count: usize| {
        let drawn = screen.draw();
        let text = drawn.split("--- styles").next().unwrap().to_owned();
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        let at = lines
            .iter()
            .rposition(|line| line.contains("▸"))
            .expect(&text);
        lines[at..at + count].to_vec()
    };
    for size in [WIDE, USUAL, SMALL] {
        // A server has two lines.
        for (pane, steps, count) in [(1, 12, 1), (2, 4, 1), (3, 4, 2), (0, 4, 1)] {
            let mut screen = Screen::morning(size, colour());
            match pane {
                0 => {
                    screen.go_to("c5b8yp").keys("enter").event(result_read(
                        id("c5b8yp"),
                        r#"{"content":[],"structuredContent":[1,2,3,4]}"#,
                    ));
                    screen.keys("g")
                }
                2 => screen.keys("2").answer_tools().keys("g"),
                _ => screen.keys(&format!("{pane} g")),
            };
            for _ in 0..steps {
                screen.state.messages.toasts.clear();
                let before = rows(&screen, count);
                for words in ["first of three that cover much", "second of them", "third"] {
                    let words = format!("{words}: {}", "and so on ".repeat(6));
                    screen.event(Event::Succeeded(words));
                }
                assert_eq!(rows(&screen, count), before, "{pane} {size:?}");
                screen.keys("j");
            }
        }
    }
}

#[test]
fn one_esc_leaves_a_search() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.go_to("c5b8yp").keys("enter");
    assert_eq!(
        (screen.state.detail.tab, screen.state.detail.is_zoomed),
        (Tab::Result, true)
    );
    screen.keys("/").type_in("Sunny").keys("enter");
    assert_eq!(
        screen
            .state
            .detail
            .search
            .as_ref()
            .map(longhaul::app::Search::text),
        Some("Sunny")
    );
    screen.keys("esc");
    assert_eq!(
        (
            screen.state.detail.search.clone(),
            screen.state.detail.focus
        ),
        (None, Focus::List)
    );
    // A restarted and abandoned edit leaves nothing of the old one behind.
    screen.keys("enter /").type_in("Sunny").keys("enter / esc");
    assert_eq!(
        (
            screen.state.detail.search.clone(),
            screen.state.detail.focus
        ),
        (None, Focus::Detail)
    );
}

#[test]
fn marks_and_cancels_the_filtered_ones_of_500_tasks() {
    let mut screen = Screen::new(USUAL, colour());
    let mut of_s3 = std::collections::BTreeSet::new();
    for at in 0..500_u32 {
        let server = format!("s{}", at % 5);
        let age = i64::from(at) * SECOND;
        let mut view = task("q7m2xk", &server, "render_movie", "{}", age);
        view.task.id = TaskId::from_bits(u64::from(at + 1) << 40 | u64::from(at + 1));
        if server == "s3" {
            of_s3.insert(view.task.id.clone());
        }
        screen.news(view);
    }
    assert_eq!((screen.state.tasks.len(), of_s3.len()), (500, 100));
    screen.wait(2_000);
    assert!(screen.draw().contains("RUNNING 500"), "{}", screen.draw());
    screen.keys("/").type_in("server:s3").keys("enter a");
    assert!(
        screen.draw().contains("100 tasks marked"),
        "{}",
        screen.draw()
    );
    screen.todo.clear();
    screen.keys("x").wait(500).keys("y");
    let cancelled = |command: &Command| match command {
        Command::Request(_, SessionRequest::Cancel(id)) => Some(id.clone()),
        _ => None,
    };
    let asked = screen.todo.iter().filter_map(cancelled);
    assert_eq!(asked.collect::<std::collections::BTreeSet<_>>(), of_s3);
    assert_eq!(answer(&screen), "cancel requested for 100 tasks");
    assert!(screen.state.list.marks.is_empty());
}
