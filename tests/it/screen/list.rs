//! The rows of the list at every size: names that can be told apart, the chosen row, what gives way where it is narrow.

use std::sync::Arc;

use longhaul::{
    app::{Event, Look},
    domain::{LinkState, ServerName, SessionEvent, Status},
};
use ratatui::{Terminal, backend::TestBackend, buffer::Buffer, style::Modifier};

use super::support::*;

const TINY: (u16, u16) = (40, 10);
const HUGE: (u16, u16) = (200, 50);

/// The tasks of a morning, each second one on another of two servers.
fn on_servers(size: (u16, u16), names: [&str; 2]) -> Screen {
    let mut screen = Screen::new(size, colour());
    for name in names {
        let server = server(name, LinkState::Live);
        screen.event(Event::Session(SessionEvent::Server(Arc::new(server))));
    }
    for (name, mut view) in names.into_iter().cycle().zip(morning()) {
        view.task.server = ServerName::new(name);
        screen.news(view);
    }
    screen.wait(1_000);
    screen
}

fn lines(screen: &Screen) -> Vec<String> {
    let drawn = screen.draw();
    let text = drawn.split("--- styles").next().unwrap();
    text.lines().map(str::to_owned).collect()
}

fn frame(screen: &Screen) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(screen.size.0, screen.size.1)).unwrap();
    terminal
        .draw(|frame| longhaul::ui::view(frame, &screen.state, screen.now))
        .unwrap();
    terminal.backend().buffer().clone()
}

#[test]
fn no_two_servers_look_the_same() {
    let row = |screen: &Screen, id: &str| {
        let found = lines(screen).into_iter().find(|line| line.contains(id));
        found.unwrap()
    };
    // Where there is room, whole.
    let names = ["build-box-of-team-a", "build-box-of-team-b"];
    for size in [(120, 50), HUGE] {
        let screen = on_servers(size, names);
        assert!(row(&screen, "q7m2xk").contains(" build-box-of-team-b "));
        assert!(row(&screen, "t9x4gz").contains(" build-box-of-team-b "));
        assert!(row(&screen, "m2hn5t").contains(" build-box-of-team-a "));
    }
    // Where there is not, so that they differ.
    let all = lines(&on_servers((100, 36), names)).join("\n");
    assert!(all.contains("eam-a ") && all.contains("eam-b "), "{all}");
}

#[test]
fn chosen_row_is_reversed_but_for_its_bar() {
    let themes = <longhaul::domain::ThemeName as strum::VariantArray>::VARIANTS.iter();
    let themes = themes.map(|&theme| Look { theme, ..colour() });
    for look in themes.chain([mono(), ascii()]) {
        for size in [HUGE, WIDE, USUAL, SMALL, TINY] {
            let mut screen = Screen::morning(size, look);
            screen.keys("esc").wait(8_000);
            let frame = frame(&screen);
            let is_reversed = |x: u16, y: u16| frame[(x, y)].modifier.contains(Modifier::REVERSED);
            let count = |y: &u16| (0..size.0).filter(|x| is_reversed(*x, *y)).count();
            let rows: Vec<u16> = (1..size.1).filter(|y| count(y) > 5).collect();
            let [row] = rows.as_slice() else {
                panic!("{rows:?} {}", screen.draw());
            };
            for x in 0..size.0 {
                let sign = frame[(x, *row)].symbol();
                let is_bar = ["\u{2588}", "\u{2591}", "#", "."].contains(&sign);
                assert!(is_bar || is_reversed(x, *row), "{x} {}", screen.draw());
            }
        }
    }
}

#[test]
fn shows_progress_instead_of_status_at_40_columns() {
    let mut screen = Screen::morning((40, 16), colour());
    screen.keys("esc").wait(8_000);
    let mut paused = morning().remove(5);
    (paused.task.control, paused.task.status) = (None, Status::Paused);
    screen.news(paused);
    let lines = lines(&screen);
    let row = |words: &str| {
        let found = lines.iter().find(|line| line.contains(words));
        found.unwrap_or_else(|| panic!("{words}: {lines:#?}"))
    };
    assert!(row("60%").contains('\u{2588}') && !row("60%").contains("running"));
    assert!(row("45%").contains("paused"));
    assert!(row("14%").contains("likely"));
    assert!(!row("Approve").contains("asking"));
}

#[test]
fn messages_cover_no_titles() {
    let above = |screen: &Screen| -> Vec<String> {
        let lines = lines(screen);
        let titles = ["TASK", "Tools of", "Servers"];
        let is_title = |line: &String| titles.iter().any(|title| line.contains(title));
        let end = lines.iter().position(is_title).unwrap();
        lines.into_iter().take(end + 1).collect()
    };
    for size in [HUGE, WIDE, USUAL, SMALL, TINY] {
        for key in ["1", "2", "3"] {
            let mut screen = Screen::morning(size, colour());
            screen.keys(key);
            let before = above(&screen);
            for words in ["one thing", "and another", "more"] {
                let words = format!("{words} {}", "that is told at length ".repeat(5));
                screen.event(Event::Failed(words));
            }
            assert_eq!(above(&screen), before);
        }
    }
}
