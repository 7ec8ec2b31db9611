//! Questions of a server: the dialog cannot be answered by reflex, sends what is filled in, and goes when it is moot.

use longhaul::{
    app::{Button, Command, Event, Overlay, QuestionForm, TerminalCommand, UserInput},
    domain::{
        Answer, LostReason, RequestError, SessionEvent, SessionRequest, SessionRequestId,
        SessionResponse, Status, TaskView,
    },
};
use serde_json::{Value, json};

use super::support::*;

const GO_ON: &str = r#"{"message":"Go on?"}"#;

fn form(screen: &Screen) -> &QuestionForm {
    match screen.state.dialogs.stack.last() {
        Some(Overlay::Question(form)) => form,
        other => panic!("{other:?}"),
    }
}

fn is_closed(screen: &Screen) -> bool {
    screen.state.dialogs.stack.is_empty()
}

/// What was answered, with the number of the ask.
fn answers(screen: &Screen) -> Vec<(SessionRequestId, String, Answer)> {
    let asks = screen.todo.iter().filter_map(|command| match command {
        Command::Request(
            ask,
            SessionRequest::Answer {
                id: task,
                key,
                answer,
            },
        ) => {
            assert_eq!(*task, id("k3v9ra"));
            Some((*ask, key.clone().unwrap(), answer.clone()))
        }
        _ => None,
    });
    asks.collect()
}

#[test]
fn a_screen_that_is_too_small_takes_no_answer() {
    let mut screen = Screen::asked((120, 36), colour(), &[GO_ON]);
    screen.event(Event::Input(UserInput::Resize(20, 5)));
    screen.read().keys("tab enter ctrl-s y D");
    assert!(screen.todo.is_empty() && !is_closed(&screen));
    screen.keys("ctrl-c ctrl-c");
    assert!(!screen.todo.is_empty(), "Ctrl-C still quits");
}

fn opened(screen: &Screen) -> Vec<String> {
    let pages = screen.todo.iter().filter_map(|command| match command {
        Command::OpenPage(url) => Some(url.clone()),
        _ => None,
    });
    pages.collect()
}

fn notice(screen: &Screen) -> &str {
    &screen.state.messages.reply.as_ref().unwrap().text
}

fn has_toast(screen: &Screen, words: &str) -> bool {
    screen
        .state
        .messages
        .toasts
        .iter()
        .any(|toast| toast.text.contains(words))
}

/// The dialog of these questions, read.
fn asked(requests: &[&str]) -> Screen {
    Screen::asked(USUAL, colour(), requests)
}

#[test]
fn a_long_question_can_be_read_to_its_end() {
    let lines: Vec<String> = (1..=60).map(|it| format!("condition {it}")).collect();
    let request = serde_json::json!({"mode": "form", "message": lines.join("\n"),
        "requestedSchema": {"type": "object", "properties": {}}});
    let mut screen = asked(&[&request.to_string()]);
    assert!(screen.draw().contains("more lines; PgDn shows all"));
    screen.keys("pgdn G");
    assert!(screen.draw().contains("condition 60"));
    screen.keys("esc");
    assert!(screen.draw().contains("[ Accept ]"));
}

#[test]
fn ignores_keys_typed_before_the_question_was_readable() {
    let mut screen = Screen::morning(USUAL, colour());
    screen.news(asking(&[GO_ON]));
    screen.go_to("k3v9ra");
    screen.todo.clear();
    // All of it in one turn, before a frame with the dialog was drawn.
    screen
        .keys("enter")
        .keys("tab tab enter ctrl-s tab y enter esc");
    assert_eq!((form(&screen).at, answers(&screen)), (None, Vec::new()));
    assert!(notice(&screen).contains("you pressed it before this appeared"));
    // Drawn, but no eye is that fast.
    screen.state.drawn(screen.now);
    screen.keys("tab tab enter");
    assert_eq!((form(&screen).at, answers(&screen)), (None, Vec::new()));
    // Read, but nothing has the keys: neither Enter nor the key that sends does anything.
    screen.wait(1_000).keys("enter ctrl-s y space x");
    screen.type_in("yes");
    assert_eq!((form(&screen).at, answers(&screen)), (None, Vec::new()));
    screen.keys("tab");
    assert_eq!(form(&screen).button(), Some(Button::Accept));
    assert!(answers(&screen).is_empty());
    screen.keys("enter");
    let (_, key, answer) = answers(&screen).remove(0);
    assert_eq!(key, "q0");
    let content = Some("{}".to_owned());
    assert_eq!(answer, Answer::Accept { content });
}

#[test]
fn esc_is_later_and_the_question_stays() {
    let mut screen = asked(&[ROLLOUT]);
    screen.keys("tab 7 esc");
    assert!(is_closed(&screen) && answers(&screen).is_empty());
    assert!(screen.draw_text().contains("asking 3h"));
    screen.keys("tab a");
    assert_eq!(form(&screen).at, None);
    let kept = form(&screen).fields[0].read();
    assert_eq!(kept, Ok(Some(json!(7))), "what was typed is still there");
    // Once it is answered elsewhere, that is forgotten.
    screen.wait(1_000).keys("esc");
    screen.news(asking(&[]));
    screen.news(asking(&[ROLLOUT]));
    screen.keys("a");
    assert_eq!(
        form(&screen).fields[0].read(),
        Ok(Some(json!(3))),
        "its default"
    );
}

#[test]
fn sends_filled_fields_with_defaults_for_the_rest() {
    let mut screen = asked(&[ROLLOUT]);
    screen.keys("tab 5 enter").type_in("new release");
    screen.keys("tab right tab right space tab right ctrl-s");
    let (_, _, answer) = answers(&screen).remove(0);
    let Answer::Accept {
        content: Some(content),
    } = answer
    else {
        panic!("{answer:?}");
    };
    let content: Value = serde_json::from_str(&content).unwrap();
    let wanted = json!({"hosts": 5, "reason": "new release", "mode": "f", "zones": ["eu", "us"]});
    for (key, value) in wanted.as_object().unwrap() {
        assert_eq!(content[key], *value, "{key}");
    }
    assert_ne!(content["tell"], json!(true));
    // While it is being saved no key sends it again.
    screen.keys("enter ctrl-s");
    assert_eq!(answers(&screen).len(), 1);
}

#[test]
fn shows_form_errors_and_sends_nothing() {
    let mut screen = asked(&[ROLLOUT]);
    screen.keys("tab 1 2 ctrl-s");
    assert_eq!(
        form(&screen).errors,
        ["hosts must be at most 9", "Why now is missing"]
    );
    assert!(answers(&screen).is_empty());
    screen.keys("backspace");
    assert!(form(&screen).errors.is_empty());
}

#[test]
fn omits_a_cleared_field_and_keeps_an_untouched_default() {
    let two = r#"{"message":"m","requestedSchema":{"properties":{
        "a":{"type":"string","default":"x"},"b":{"type":"integer","default":2}}}}"#;
    let mut screen = asked(&[two]);
    screen.keys("tab ctrl-u ctrl-s");
    let (_, _, answer) = answers(&screen).remove(0);
    let content = Some(r#"{"b":2}"#.to_owned());
    assert_eq!(answer, Answer::Accept { content });
}

#[test]
fn declining_and_dismissing_are_buttons_of_their_own() {
    for (keys, wanted) in [
        ("tab right enter", Answer::Decline),
        ("tab tab tab enter", Answer::Dismiss),
        ("backtab enter", Answer::Dismiss),
    ] {
        let mut screen = asked(&[GO_ON]);
        screen.keys(keys);
        assert_eq!(answers(&screen).remove(0).2, wanted, "{keys}");
    }
}

fn outcome(screen: &mut Screen, outcome: Result<SessionResponse, RequestError>) {
    let (ask, _, _) = answers(screen).pop().unwrap();
    screen.event(Event::Session(SessionEvent::Response {
        request: ask,
        outcome,
    }));
}

#[test]
fn shows_several_questions_one_at_a_time() {
    let both = [GO_ON, r#"{"message":"Really?"}"#];
    let mut screen = asked(&both);
    assert!(screen.draw_text().contains("Question 1 of 2"));
    screen.keys("tab enter");
    outcome(&mut screen, Ok(SessionResponse::Accepted));
    // The record still shows the first one as open; the second is asked all the same, and unread.
    assert_eq!(form(&screen).key, "q1");
    screen.keys("tab enter");
    assert_eq!(answers(&screen).len(), 1);
    let mut view = asking(&both);
    view.task.questions[0].answer = Some(Answer::Decline);
    screen.news(view).read();
    assert!(screen.draw_text().contains("Question 2 of 2"));
    screen.keys("tab enter");
    outcome(&mut screen, Ok(SessionResponse::Accepted));
    assert!(is_closed(&screen) && has_toast(&screen, "k3v9ra: answer saved (accepted)"));
}

#[test]
fn a_refused_answer_stays_editable() {
    let mut screen = asked(&[GO_ON]);
    screen.keys("tab enter");
    outcome(
        &mut screen,
        Err(RequestError::CannotSave("no space left".to_owned())),
    );
    assert_eq!(form(&screen).errors, ["no space left"]);
    assert!(screen.draw_text().contains("no space left"));
    screen.keys("enter");
    assert_eq!(answers(&screen).len(), 2);
}

#[test]
fn a_moot_question_closes_its_dialog_with_a_reason() {
    let mut answered: TaskView = asking(&[ROLLOUT]);
    answered.task.questions[0].answer = Some(Answer::Decline);
    answered.task.status = Status::Running;
    let gone = settled(asking(&[ROLLOUT]), Status::Lost(LostReason::TaskExpired), 0);
    for (view, words) in [
        (answered, "answered elsewhere"),
        (gone, "is lost; its question was closed"),
    ] {
        let mut screen = asked(&[ROLLOUT]);
        screen.keys("tab 7").news(view);
        assert!(is_closed(&screen) && has_toast(&screen, words), "{words}");
    }
    // What asks is left alone by news of anything else.
    let mut screen = asked(&[ROLLOUT]);
    screen
        .keys("tab 7")
        .news(morning().remove(3))
        .news(asking(&[ROLLOUT]));
    assert_eq!(form(&screen).at, Some(0));
}

#[test]
fn opens_a_page_only_over_http_after_confirmation() {
    let mut screen = asked(&[VISIT]);
    screen.keys("o");
    assert!(notice(&screen).contains("press o again to open xn--pypal-4ve.com"));
    assert!(
        screen
            .draw()
            .contains("Press o again to open xn--pypal-4ve.com")
    );
    // Any other key takes it back.
    screen.keys("tab o");
    assert!(opened(&screen).is_empty());
    screen.keys("o");
    let whole = "https://bank.example@xn--pypal-4ve.com:8443/a/very/long/path";
    assert!(opened(&screen)[0].starts_with(whole));
    assert!(answers(&screen).is_empty());
    screen.keys("enter");
    assert_eq!(
        answers(&screen).remove(0).2,
        Answer::Accept { content: None }
    );

    let file = "file:///etc/passwd";
    let mut screen = asked(&[r#"{"mode":"url","message":"m","url":"file:///etc/passwd"}"#]);
    screen.keys("o o o");
    assert!(opened(&screen).is_empty() && notice(&screen).contains("only http and https"));
    screen.keys("y");
    assert!(
        screen
            .todo
            .contains(&Command::Terminal(TerminalCommand::Copy(file.to_owned())))
    );
}

#[test]
fn answering_needs_a_question_and_write_access() {
    let mut screen = Screen::morning(USUAL, colour());
    screen.state.setup.readonly = true;
    screen.go_to("k3v9ra").keys("enter");
    assert!(is_closed(&screen) && notice(&screen).contains("read-only"));
    let mut screen = Screen::morning(USUAL, colour());
    screen.go_to("q7m2xk").keys("tab a");
    assert!(is_closed(&screen) && notice(&screen).contains("has no question"));
}

#[test]
fn imports_tasks_of_the_selected_or_named_server() {
    let adopts = |screen: &Screen| {
        let ask = screen.todo.iter().find_map(|command| match command {
            Command::Request(
                ask,
                SessionRequest::Adopt {
                    server,
                    server_task: None,
                },
            ) => Some((*ask, server.to_string())),
            _ => None,
        });
        ask.unwrap()
    };
    let mut screen = Screen::morning(USUAL, colour());
    screen.keys("3 j A");
    let (ask, server) = adopts(&screen);
    assert_eq!(server, "lab");
    let outcome = Ok(SessionResponse::Adopted(vec![id("aaaaaa"), id("aaaaab")]));
    screen.event(Event::Session(SessionEvent::Response {
        request: ask,
        outcome,
    }));
    assert!(has_toast(&screen, "imported 2 tasks from lab"));
    screen.todo.clear();
    screen.keys(":").type_in("adopt ci").keys("enter");
    assert_eq!(adopts(&screen).1, "ci");
}
