//! The result of a task: folding, searching, and what a large one costs.

use longhaul::{
    app::{Command, Tab, TerminalCommand},
    domain::SavedRead,
};

use super::support::*;

/// A zoomed result tab with this result.
fn with_result(size: (u16, u16), json: &str) -> Screen {
    let mut screen = Screen::morning(size, colour());
    screen.go_to("c5b8yp").keys("enter");
    assert_eq!(screen.state.detail.tab, Tab::Result);
    assert!(
        screen
            .todo
            .contains(&Command::Read(SavedRead::Result(id("c5b8yp"))))
    );
    screen.event(result_read(id("c5b8yp"), json));
    screen
}

/// A result whose structured part is this.
fn structured(json: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":"See below."}}],"structuredContent":{json}}}"#)
}

#[test]
fn says_that_a_result_is_empty() {
    for content in ["[]", r#"[{"type":"text","text":""}]"#] {
        let screen = with_result(WIDE, &format!(r#"{{"content":{content}}}"#));
        let drawn = screen.draw();
        assert!(drawn.contains("The result is empty."), "{drawn}");
    }
}

#[test]
fn folds_the_element_under_the_cursor_or_everything() {
    let json = structured(r#"{"days":[{"celsius":21},{"celsius":19}],"city":"Lisbon"}"#);
    let mut screen = with_result(WIDE, &json);
    // Over the text, its heading and the first brace.
    screen.keys("j j j j j j");
    assert!(
        screen.draw().contains("\"celsius\": 21"),
        "{}",
        screen.draw()
    );
    screen.keys("space");
    assert!(screen.draw().contains("+     { … },  1 item"));
    assert!(!screen.draw().contains("\"celsius\": 21"));
    screen.keys("enter");
    assert!(screen.draw().contains("\"celsius\": 21"));
    screen.keys(".");
    let folded = screen.draw();
    assert_eq!(answer(&screen), "everything folded");
    assert!(folded.contains("{ … }  2 items"), "{folded}");
    assert!(!folded.contains("Lisbon"));
    screen.keys(".");
    assert!(screen.draw().contains("Lisbon"));
    screen.keys("g space");
    assert!(
        answer(&screen).contains("nothing to fold here"),
        "{}",
        answer(&screen)
    );
}

#[test]
fn a_search_marks_what_it_finds_counts_it_and_unfolds_it() {
    let json = structured(r#"{"a":{"city":"Lisbon"},"b":[1,2],"c":"nearly LISBON"}"#);
    let mut screen = with_result(WIDE, &json);
    screen.keys(". /").type_in("lisbon").keys("enter");
    assert_eq!(answer(&screen), "1 of 2 matching lines");
    let drawn = screen.draw();
    assert!(drawn.contains("\"city\": \"Lisbon\""), "{drawn}");
    assert!(drawn.contains("\"b\": [ … ],"), "{drawn}");
    screen.keys("n");
    assert_eq!(answer(&screen), "2 of 2 matching lines");
    screen.keys("n");
    assert!(
        answer(&screen).contains("press N for the other direction"),
        "{}",
        answer(&screen)
    );
    screen.keys("N");
    assert_eq!(answer(&screen), "1 of 2 matching lines");
    screen.keys("N");
    assert!(
        answer(&screen).contains("press n for the other direction"),
        "{}",
        answer(&screen)
    );
    screen.keys("esc");
    assert_eq!(screen.state.detail.search, None);
}

#[test]
fn reports_when_there_is_nothing_to_fold() {
    let mut screen = with_result(WIDE, r#"{"content":[{"type":"text","text":"Sunny"}]}"#);
    screen.keys("space");
    assert!(
        answer(&screen).contains("only JSON objects and arrays"),
        "{}",
        answer(&screen)
    );
    screen.keys("] .");
    assert!(
        answer(&screen).contains("only JSON results can be folded"),
        "{}",
        answer(&screen)
    );
}

#[test]
fn the_cursor_stays_on_the_screen() {
    let rows: Vec<String> = (0..500).map(|row| format!(r#"{{"row":{row}}}"#)).collect();
    let mut screen = with_result(SMALL, &structured(&format!("[{}]", rows.join(","))));
    for keys in ["G", "k k k", "pgup", "pgup", "g", "pgdn j", "w", "G", "w"] {
        screen.keys(keys);
        assert!(
            screen.draw().contains('▸'),
            "after {keys}:\n{}",
            screen.draw()
        );
    }
    screen.keys("/").type_in("\"row\": 250").keys("enter");
    assert_eq!(answer(&screen), "1 matching line");
    assert!(screen.draw().contains("\"row\": 250"));
    // All that is left of the list is its head, and the cursor is on it.
    screen.keys(".");
    assert!(screen.draw().contains('▸'), "{}", screen.draw());
}

#[test]
fn a_large_result_is_shown_whole_and_searched() {
    let rows: Vec<String> = (0..150_000)
        .map(|row| format!(r#"{{"row":{row},"words":"the same words on every line of it"}}"#))
        .collect();
    let json = structured(&format!("[{}]", rows.join(",")));
    assert!(json.len() > 8_000_000);
    let mut screen = with_result(WIDE, &json);
    screen.keys("/").type_in("\"row\": 90000").keys("enter");
    assert_eq!(answer(&screen), "1 matching line");
    assert!(
        screen.draw().contains("\"row\": 90000,"),
        "{}",
        screen.draw()
    );
    screen.keys("G");
    assert!(
        screen
            .draw()
            .contains("truncated; full text: `longhaul result c5b8yp")
    );
}

/// A result with one text.
fn text(words: &str) -> String {
    serde_json::json!({"content": [{"type": "text", "text": words}]}).to_string()
}

const REPORT: &str = "# Report for **Lisbon**\n\n- sunny, see [the map](http://bad.example/m)\n- `21` degrees\n\n```sh\necho **not bold**\n```\n";

#[test]
fn shows_markdown_as_it_is_written() {
    let mut screen = with_result(WIDE, &text(REPORT));
    for line in REPORT.lines() {
        assert!(screen.draw().contains(line), "{}", screen.draw());
    }
    screen.keys("/").type_in("THE MAP](HTTP").keys("enter");
    assert!(
        answer(&screen).contains("1 matching line"),
        "{}",
        answer(&screen)
    );
}

#[test]
fn renders_a_resource_with_markdown_mime_type() {
    let json = serde_json::json!({"content": [{"type": "resource", "resource":
        {"uri": "file:///notes.md", "mimeType": "text/markdown; charset=utf-8", "text": "only *this*"}}]});
    let screen = with_result(WIDE, &json.to_string());
    let drawn = screen.draw();
    assert!(
        drawn.contains("[file:///notes.md, text/markdown; charset=utf-8, 11 B]"),
        "{drawn}"
    );
    assert!(drawn.contains("only *this*"), "{drawn}");
}

const PARTS: &str = r#"{"content":[{"type":"image","data":"iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgCAIAAAA=","mimeType":"image/png"},
        {"type":"resource_link","uri":"https://a.example/r.csv","name":"r","title":"Rows","mimeType":"text/csv","size":1500},{"type":"resource_link","uri":"file:///etc/passwd","name":"p"},{"type":"image","data":"PGh0bWw+","mimeType":"image/png"},{"type":"text","text":"the end"}],"structuredContent":{"a":1}}"#;

#[test]
fn describes_images_and_links() {
    let screen = with_result(WIDE, PARTS);
    let drawn = screen.draw();
    assert!(drawn.contains("[image/png, 29 B]"), "{drawn}");
    assert!(
        drawn.contains("[link https://a.example/r.csv, Rows, text/csv, 1.5 kB]"),
        "{drawn}"
    );
}

/// What was asked of the shell, but for what is shown beside the screen.
fn sent(screen: &Screen) -> Vec<Command> {
    let todo = screen.todo.iter();
    let is_beside = |command: &&Command| {
        matches!(
            command,
            Command::Terminal(TerminalCommand::Progress(_) | TerminalCommand::SetTitle(_))
        )
    };
    todo.filter(|command| !is_beside(command))
        .cloned()
        .collect()
}

fn with_parts(keys: &str) -> Screen {
    let mut screen = with_result(WIDE, PARTS);
    screen.keys(keys);
    screen.todo.clear();
    screen
}

#[test]
fn saves_a_part_to_the_chosen_path() {
    let mut screen = with_parts("s");
    assert!(
        screen.draw().contains("save to: c5b8yp-1.png"),
        "{}",
        screen.draw()
    );
    screen
        .keys("ctrl-u")
        .type_in("~/a picture.png")
        .keys("enter");
    let path = "~/a picture.png".to_owned();
    let task = id("c5b8yp");
    assert_eq!(
        sent(&screen),
        [Command::SavePart {
            task,
            part: 0,
            path
        }]
    );
    screen.keys("s esc");
    assert_eq!(answer(&screen), "not saved");
    assert_eq!(sent(&screen).len(), 1);
}

#[test]
fn a_link_names_its_host_and_leads_only_to_the_web() {
    let mut screen = with_parts("j s");
    let drawn = screen.draw();
    assert!(drawn.contains("Opens a page at a.example."), "{drawn}");
    screen.keys("o");
    assert_eq!(sent(&screen), []);
    screen.read().keys("o");
    let url = "https://a.example/r.csv".to_owned();
    assert_eq!(sent(&screen), [Command::OpenPage(url.clone())]);
    assert_eq!(answer(&screen), "opening in your browser");
    screen.keys("s").read().keys("y");
    assert_eq!(
        sent(&screen).last(),
        Some(&Command::Terminal(TerminalCommand::Copy(url)))
    );
    let mut screen = with_parts("j j s");
    screen.read().keys("o");
    assert!(
        answer(&screen).contains("only http and https"),
        "{}",
        answer(&screen)
    );
    assert_eq!(sent(&screen), []);
}

#[test]
fn reports_when_the_cursor_is_not_on_a_part() {
    let mut screen = with_parts("G s");
    assert!(
        answer(&screen).contains("not on a block"),
        "{}",
        answer(&screen)
    );
    screen.keys("] s");
    assert!(
        answer(&screen).contains("only blocks of a result"),
        "{}",
        answer(&screen)
    );
}
