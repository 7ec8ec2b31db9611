//! The mouse hits what is drawn under it, at every size.

use longhaul::{
    app::{Event, Focus, Overlay, Pane, Tab, UserInput},
    domain::{MouseAction, SessionRequest},
};

use super::support::*;

const SIZES: [(u16, u16); 4] = [(200, 50), WIDE, USUAL, SMALL];

fn mouse(screen: &mut Screen, action: MouseAction, (column, row): (u16, u16)) {
    screen.event(Event::Input(UserInput::Mouse(action, column, row)));
}

fn lines(screen: &Screen) -> Vec<String> {
    let drawn = screen.draw();
    let text = drawn.split("--- styles").next().unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Where the first of these words stands on the screen.
fn place(screen: &Screen, words: &str) -> Option<(u16, u16)> {
    lines(screen).iter().zip(0_u16..).find_map(|(line, row)| {
        let (before, _) = line.split_once(words)?;
        Some((u16::try_from(before.chars().count()).unwrap(), row))
    })
}

fn press(screen: &mut Screen, words: &str) {
    let at = place(screen, words).unwrap_or_else(|| panic!("{words}: {}", screen.draw()));
    mouse(screen, MouseAction::Press, at);
}

#[test]
fn press_chooses_the_row_under_it_and_a_second_one_opens_it() {
    for size in SIZES {
        let mut screen = Screen::morning(size, colour());
        // With and without a banner above the list.
        for key in ["1", "esc"] {
            screen.keys(key).keys("g");
            for (name, word) in [
                ("m2hn5t", "scene=13"),
                ("8fw2mc", "nightly-eu"),
                ("q7m2xk", "30/50"),
            ] {
                let word = if size.0 < 80 && name == "q7m2xk" {
                    "60%"
                } else {
                    word
                };
                let word = if size.0 < 80 && name == "m2hn5t" {
                    "14%"
                } else {
                    word
                };
                if place(&screen, word).is_none() {
                    continue;
                }
                screen.keys("k");
                press(&mut screen, word);
                assert_eq!(
                    screen.state.list.cursor,
                    Some(id(name)),
                    "{}",
                    screen.draw()
                );
                assert!(!screen.state.detail.is_zoomed && screen.state.dialogs.stack.is_empty());
            }
        }
        screen.go_to("q7m2xk");
        let row = lines(&screen)
            .iter()
            .position(|line| line.contains('\u{25b8}'));
        let row = u16::try_from(row.unwrap()).unwrap();
        mouse(&mut screen, MouseAction::Press, (9, row));
        assert!(screen.state.detail.is_zoomed, "{}", screen.draw());
        // A heading is no row.
        screen.keys("esc").go_to("q7m2xk");
        press(&mut screen, "RUNNING");
        assert_eq!(
            (
                screen.state.list.cursor.clone(),
                screen.state.detail.is_zoomed
            ),
            (Some(id("q7m2xk")), false)
        );
    }
}

#[test]
fn press_on_a_tab_shows_it() {
    for size in [(200, 50), WIDE, USUAL] {
        let mut screen = Screen::morning(size, colour());
        screen.keys("esc").go_to("q7m2xk");
        for (words, tab) in [
            ("Log", Tab::Log),
            ("Resume", Tab::Resume),
            ("Arguments", Tab::Arguments),
            ("Now", Tab::Now),
        ] {
            let row = place(&screen, "q7m2xk \u{2500}").unwrap().1;
            let line = lines(&screen).remove(usize::from(row));
            let before = line.split(words).next().unwrap().chars().count();
            for column in [before, before + words.len() - 1] {
                screen.keys("[ [ [ [ [ ]");
                let column = u16::try_from(column).unwrap();
                // The brackets have moved with the tab.
                let line = lines(&screen).remove(usize::from(row));
                let now = line.split(words).next().unwrap().chars().count();
                let moved = u16::try_from(now).unwrap() + column - u16::try_from(before).unwrap();
                mouse(&mut screen, MouseAction::Press, (moved, row));
                assert_eq!(
                    screen.state.detail.tab,
                    tab,
                    "{size:?} {words} {}",
                    screen.draw()
                );
                assert_eq!(screen.state.detail.focus, Focus::Detail);
            }
            screen.keys("esc");
        }
    }
}

#[test]
fn wheel_moves_what_is_under_it() {
    let mut screen = Screen::morning(USUAL, colour());
    screen.keys("esc g");
    let first = screen.state.list.cursor.clone();
    mouse(&mut screen, MouseAction::WheelDown, (9, 5));
    assert_ne!(screen.state.list.cursor, first);
    mouse(&mut screen, MouseAction::WheelUp, (9, 5));
    assert_eq!(screen.state.list.cursor, first);

    screen.go_to("q7m2xk").keys("]");
    let detail = place(&screen, "[Log]").unwrap().1;
    mouse(&mut screen, MouseAction::WheelUp, (9, detail + 2));
    assert_eq!(
        (screen.state.detail.scroll, screen.state.detail.is_following),
        (3, false)
    );
    assert_eq!(screen.state.detail.focus, Focus::List);
    mouse(&mut screen, MouseAction::WheelDown, (9, detail + 2));
    assert_eq!(
        (screen.state.detail.scroll, screen.state.detail.is_following),
        (0, true)
    );
}

#[test]
fn press_chooses_tools_and_servers() {
    for size in [(200, 50), WIDE, USUAL] {
        let mut screen = Screen::morning(size, colour());
        screen.keys("3");
        press(&mut screen, "http://127.0.0.1:8931/ci");
        assert_eq!(screen.state.cursors[1], 2, "{}", screen.draw());
        press(&mut screen, "http://127.0.0.1:8931/lab");
        assert_eq!(
            (screen.state.cursors[1], screen.state.pane),
            (1, Pane::Servers)
        );
        screen.keys("2").answer_tools();
        let at = place(&screen, "pause_task").unwrap();
        mouse(&mut screen, MouseAction::Press, at);
        assert_eq!(screen.state.cursors[0], 2, "{}", screen.draw());
        mouse(&mut screen, MouseAction::Press, at);
        assert!(matches!(
            screen.state.dialogs.stack.last(),
            Some(Overlay::Call(_))
        ));
    }
}

#[test]
fn over_a_dialog_only_the_wheel_does_something() {
    let mut screen = Screen::morning(WIDE, colour());
    screen.keys("x");
    screen.todo.clear();
    let before = screen.state.list.cursor.clone();
    for column in (0..120).step_by(7) {
        for row in 0..36 {
            mouse(&mut screen, MouseAction::Press, (column, row));
        }
    }
    assert_eq!(
        (
            screen.state.list.cursor.clone(),
            screen.state.dialogs.stack.len()
        ),
        (before, 1)
    );
    assert!(!screen.todo.iter().any(|it| matches!(
        it,
        longhaul::app::Command::Request(_, SessionRequest::Cancel(_))
    )));
    screen.wait(1_000);
    mouse(&mut screen, MouseAction::WheelDown, (50, 20));
    assert!(matches!(
        screen.state.dialogs.stack.last(),
        Some(Overlay::Menu {
            selected: Some(_),
            ..
        })
    ));
    screen.keys("esc ?");
    mouse(&mut screen, MouseAction::WheelDown, (50, 20));
    assert!(matches!(
        screen.state.dialogs.stack.last(),
        Some(Overlay::Help { cursor: 1, .. })
    ));
}
