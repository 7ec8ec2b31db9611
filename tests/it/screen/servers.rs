//! What servers want of a person before they can be used, and what an import brings.

use std::sync::Arc;

use longhaul::{
    app::{Approval, Command, Event, Menu, Overlay, Pane, ServerFindings, Tab},
    domain::{
        Connectivity, LinkState, Phase, ServerName, ServerObstacle, ServerView, SessionEvent,
        SessionRequest,
    },
};

use super::support::*;

fn lab(obstacle: Option<ServerObstacle>, state: LinkState) -> ServerView {
    ServerView {
        obstacle,
        ..server("lab", state)
    }
}

fn variable() -> ServerObstacle {
    ServerObstacle::Variables(vec!["LAB_TOKEN".to_owned()])
}

fn knows(screen: &mut Screen, view: ServerView) {
    screen.event(Event::Session(SessionEvent::Server(Arc::new(view))));
}

#[test]
fn shows_what_a_server_needs_before_its_first_use() {
    for (obstacle, word, todo) in [
        (
            ServerObstacle::Approval,
            "lab needs approval",
            "or run `longhaul servers approve lab`",
        ),
        (
            variable(),
            "lab needs $LAB_TOKEN",
            "set it, then reopen the screen",
        ),
    ] {
        let mut screen = Screen::new(WIDE, colour());
        knows(&mut screen, lab(Some(obstacle), LinkState::Idle));
        assert!(screen.draw().contains(word), "{}", screen.draw());
        screen.keys("3");
        assert!(screen.draw().contains(todo), "{}", screen.draw());
        assert!(screen.draw().contains("L approve or sign in"));
        screen.todo.clear();
        screen.keys("L");
        let read = Command::ReadApproval(ServerName::new("lab"));
        assert_eq!(screen.todo, [read]);
        // Nothing stands in its way any more.
        knows(&mut screen, lab(None, LinkState::Idle));
        assert!(!screen.draw().contains("needs"), "{}", screen.draw());
    }
}

#[test]
fn a_task_that_waits_names_what_it_waits_for() {
    let signs_in = LinkState::NeedsLogin {
        why: "lab requires sign-in (HTTP 401)".to_owned(),
        takes_sign_in: true,
    };
    let cases = [
        (
            Some(variable()),
            LinkState::Idle,
            "needs $LAB_TOKEN",
            "set it, then reopen the screen",
        ),
        (
            Some(ServerObstacle::Approval),
            LinkState::Idle,
            "needs approval: L",
            "press L to review",
        ),
        (
            None,
            signs_in,
            "needs sign-in: L",
            "press L to sign in, or run `longhaul login lab`",
        ),
    ];
    for (obstacle, state, row, now) in cases {
        let mut screen = Screen::new(WIDE, colour());
        knows(&mut screen, lab(obstacle, state));
        let mut waiting = task("q7m2xk", "lab", "get_forecast", "{}", 9 * SECOND);
        waiting.task.attempts[0].phase = Phase::Queued;
        waiting.contact = Connectivity::NeedsLogin;
        screen.news(waiting.clone());
        let drawn = screen.draw();
        assert!(drawn.contains(row), "{drawn}");
        assert_eq!(screen.state.detail.tab, Tab::Now);
        let facts: String = drawn.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = |words: &str| words.split(' ').all(|word| facts.contains(word));
        assert!(said(now) && facts.contains("waiting: "), "{drawn}");
        // Once it may continue, none of that is shown.
        knows(&mut screen, lab(None, LinkState::Live));
        waiting.contact = Connectivity::Idle;
        screen.news(waiting);
        let drawn = screen.draw();
        assert!(
            !drawn.contains(row) && !drawn.contains("waiting"),
            "{drawn}"
        );
    }
}

/// Nothing is left to agree to there.
fn nothing_at(name: &str, words: &str) -> Event {
    let approval = Approval {
        message: words.to_owned(),
        ..Approval::default()
    };
    Event::ApprovalRead(ServerName::new(name), approval)
}

#[test]
fn shows_all_that_a_server_needs_without_a_success_mark() {
    let mut screen = Screen::new(USUAL, colour());
    let refuses = LinkState::NeedsLogin {
        why: "lab requires credentials (HTTP 401)".to_owned(),
        takes_sign_in: false,
    };
    knows(&mut screen, lab(None, refuses));
    screen.keys("3 L");
    assert!(screen.draw().contains("checking the configuration"));
    screen.event(nothing_at(
        "lab",
        "lab gets $LAB_TOKEN as the configuration has it",
    ));
    let drawn = screen.draw();
    assert!(drawn.contains("What lab needs"), "{drawn}");
    assert!(
        drawn.contains("lab requires credentials (HTTP 401)"),
        "{drawn}"
    );
    assert!(drawn.contains("gets $LAB_TOKEN"), "{drawn}");
    assert!(
        !drawn.contains("checking the") && !drawn.contains("\u{2713}"),
        "{drawn}"
    );
    screen.keys("esc");
    assert!(screen.state.dialogs.stack.is_empty() && screen.state.messages.toasts.is_empty());
}

#[test]
fn a_long_word_of_a_server_leaves_the_column_beside_it_alone() {
    let mut screen = Screen::new(USUAL, colour());
    knows(&mut screen, server("ci", LinkState::Live));
    let long = ServerObstacle::Variables(vec!["workspaceFolderOfTheEditor".to_owned()]);
    knows(&mut screen, lab(Some(long), LinkState::Idle));
    screen.keys("n");
    let drawn = screen.draw();
    let lines = drawn.lines().filter(|line| line.contains("http://"));
    let column = |line: &str| line.split("http").next().unwrap().chars().count();
    let columns: Vec<usize> = lines.map(column).collect();
    assert!(columns.len() == 2 && columns[0] == columns[1], "{drawn}");
}

#[test]
fn the_login_key_opens_the_list_when_several_servers_wait() {
    let mut screen = Screen::new(USUAL, colour());
    knows(&mut screen, server("ci", LinkState::Live));
    for name in ["lab", "files"] {
        let mut view = lab(Some(ServerObstacle::Approval), LinkState::Idle);
        view.name = ServerName::new(name);
        knows(&mut screen, view);
    }
    screen.todo.clear();
    screen.keys("L");
    assert_eq!(
        (screen.state.pane, screen.state.cursors[1]),
        (Pane::Servers, 1)
    );
    assert!(
        screen
            .draw()
            .contains("several servers need you; press L on one of them")
    );
    screen.keys("L");
    assert_eq!(reads(&screen), ["lab"]);
    screen.keys("1 :").type_in("login files").keys("enter");
    assert_eq!(reads(&screen), ["lab", "files"]);
}

fn taken(waiting: &[&str], lines: Vec<String>) -> Event {
    Event::ServersImported(ServerFindings {
        lines,
        new: 3,
        server_configs: longhaul::domain::ServerConfigs::default(),
        waiting: waiting.iter().map(|name| ServerName::new(*name)).collect(),
    })
}

fn asks_for(name: &str) -> Event {
    let approval = Approval {
        pending: vec![format!("{name}: X would be sent to https://h.example")],
        digest: "d".to_owned(),
        ..Approval::default()
    };
    Event::ApprovalRead(ServerName::new(name), approval)
}

fn reads(screen: &Screen) -> Vec<&str> {
    fn name(command: &Command) -> Option<&str> {
        match command {
            Command::ReadApproval(name) => Some(name.as_str()),
            _ => None,
        }
    }
    screen.todo.iter().filter_map(name).collect()
}

#[test]
fn asks_for_approval_one_server_at_a_time_after_an_import() {
    let lines = vec!["taken lab: https://h.example".to_owned()];
    let mut screen = Screen::new(USUAL, colour());
    screen.event(taken(&["lab", "ci", "files"], lines));
    assert_eq!(reads(&screen), ["lab"]);
    screen.event(asks_for("lab"));
    assert!(screen.draw().contains("Send these values to lab?"));
    // A yes is written down before the next one is read: each reads the whole configuration.
    screen.wait(500).keys("y");
    assert_eq!(reads(&screen), ["lab"]);
    screen.event(Event::ApprovalRead(
        ServerName::new("lab"),
        Approval {
            message: "agreed for lab".to_owned(),
            is_approved: true,
            ..Approval::default()
        },
    ));
    assert_eq!(reads(&screen), ["lab", "ci"]);
    screen.event(asks_for("ci"));
    screen.wait(500).keys("n");
    assert_eq!(reads(&screen), ["lab", "ci", "files"]);
    // Later means all that is left.
    let mut screen = Screen::new(USUAL, colour());
    screen.event(taken(&["lab", "ci"], vec!["taken lab".to_owned()]));
    screen.event(asks_for("lab"));
    screen.wait(500).keys("esc");
    assert_eq!(reads(&screen), ["lab"]);
    assert!(
        screen
            .draw()
            .contains("nothing approved or sent; to decide later, press L in the servers pane (3)")
    );
    let asked =
        |command: &Command| matches!(command, Command::Request(_, SessionRequest::Configure(_)));
    assert!(screen.todo.iter().any(asked));
}

#[test]
fn the_import_report_scrolls_to_its_end() {
    let why = |at: usize| format!("skipped s{at}: {} end-{at}", "because ".repeat(12));
    let lines: Vec<String> = (0..30).map(why).collect();
    let mut screen = Screen::new(USUAL, colour());
    screen.event(taken(&[], lines.clone()));
    let drawn = screen.draw();
    assert!(
        drawn.contains("Imported 3 servers") && drawn.contains("end-0"),
        "{drawn}"
    );
    let mut seen = drawn;
    for _ in 0..30 {
        screen.keys("j");
        seen.push_str(&screen.draw());
    }
    for at in 0..30 {
        assert!(seen.contains(&format!("end-{at}")), "{at}: {seen}");
    }
    // The end of it stays at the end of the page.
    assert!(screen.draw().contains("end-28"), "{}", screen.draw());
    screen.keys("esc");
    assert!(screen.state.dialogs.stack.is_empty());
    // The same before anything is taken; the choice stays below.
    screen.event(Event::ServersFound(ServerFindings {
        lines,
        new: 1,
        ..ServerFindings::default()
    }));
    screen.keys("r");
    assert!(screen.draw().contains("Servers found"));
    screen.keys("G");
    assert!(screen.draw().contains("end-29"), "{}", screen.draw());
    screen.keys("q");
    let below = screen.state.dialogs.stack.last();
    assert!(
        matches!(
            below,
            Some(Overlay::Menu {
                menu: Menu::Import { .. },
                ..
            })
        ),
        "{below:?}"
    );
}
