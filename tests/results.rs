//! Results that are more than text: saved and opened byte for byte, and nothing opened without a yes.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, its helpers too, and writes a script of its own"
)]

#[path = "support/pty.rs"]
mod pty;
mod support;

use std::{fs, net::SocketAddr, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use futures_util::stream;
use pty::House;
use serde_json::json;
use support::{
    program::{Ran, run},
    server,
};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0\x08\xff\0end";

/// A server whose one tool gives a text, a picture, a link and a page that says it is a picture.
fn gallery() -> SocketAddr {
    server::one_tool("gallery", |call| {
        let picture = longhaul::domain::base64(PNG);
        let page = longhaul::domain::base64(b"<html>");
        let result = json!({"content": [
            {"type": "text", "text": "Two pictures."},
            {"type": "image", "mimeType": "image/png", "data": picture},
            {"type": "resource_link", "uri": "https://a.example/x", "name": "x", "mimeType": "text/csv"},
            {"type": "image", "mimeType": "image/png", "data": page},
        ]});
        stream::iter([call.answer(&result)])
    })
}

fn called(state: &Path) -> String {
    let url = format!("http://{}/mcp", gallery());
    let ran = run(state, &["-s", &url, "call", "gallery", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let started = ran.events().into_iter().next().unwrap();
    started.get("id").unwrap().as_str().unwrap().to_owned()
}

fn refused(ran: &Ran, words: &str) {
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains(words), "{ran:?}");
}

#[test]
fn a_part_of_a_result_is_named_and_saved_byte_for_byte() {
    let house = House::new();
    let state = house.path();
    let id = called(state);
    let ran = run(state, &["result", &id]);
    assert_eq!(
        ran.out,
        "Two pictures.\n[image/png, 30 B, 640x480]\n[link https://a.example/x, x, text/csv]\n[image/png, 6 B]\n"
    );
    assert!(
        ran.err
            .contains(&format!("longhaul result {id} --block 2 --out FILE")),
        "{ran:?}"
    );
    let out = state.join("a picture.png");
    let ran = run(
        state,
        &[
            "result",
            &id,
            "--block",
            "2",
            "--out",
            out.to_str().unwrap(),
        ],
    );
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(fs::read(&out).unwrap(), PNG);
    let piped = house
        .command(&["result", &id, "--block", "2"])
        .output()
        .unwrap();
    assert_eq!(piped.stdout, PNG);
    let ran = run(state, &["result", &id, "--block", "1"]);
    assert_eq!(ran.out, "Two pictures.");
    let ran = run(state, &["--json", "result", &id, "--block", "3"]);
    assert_eq!(ran.document()["uri"], "https://a.example/x");
    refused(
        &run(state, &["result", &id, "--block", "3"]),
        "it is a link",
    );
    refused(
        &run(state, &["result", &id, "--block", "9"]),
        "has no block 9",
    );
    refused(&run(state, &["result", &id, "--block", "0"]), "0");
}

#[test]
fn the_desktop_is_given_a_private_copy_after_a_yes_and_the_copy_goes_at_the_end() {
    let house = House::new();
    let state = house.path();
    let id = called(state);
    // What the desktop would be: it keeps what it was given, and says where that was.
    let bin = state.join("bin");
    fs::create_dir(&bin).unwrap();
    let seen = state.join("seen");
    let fake = bin.join("xdg-open");
    let script = format!(
        "#!/bin/sh\ncp \"$1\" '{0}.png'\nstat -c %a \"$(dirname \"$1\")\" > '{0}.mode'\nprintf %s \"$#$1\" > '{0}'\n",
        seen.display()
    );
    fs::write(&fake, script).unwrap();
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("PATH={}:/usr/bin:/bin", bin.display());
    let arguments = [path.as_str(), pty::program()];
    let mut tui = house.open_with(&[("DISPLAY", ":0")], "/usr/bin/env", &arguments, (100, 30));
    tui.wait_for("gallery");
    tui.press("\r");
    tui.wait_for("[image/png, 30 B, 640x480]");
    tui.press("js");
    tui.wait_for("runs: xdg-open FILE.png");
    assert!(!seen.exists());
    // What is typed at once is taken for a slip.
    tui.press("o");
    tui.watch_for(Duration::from_millis(500));
    assert!(!seen.exists());
    tui.press("o");
    tui.wait_for("xdg-open has it");
    let given = fs::read_to_string(&seen).unwrap();
    let copy = Path::new(given.strip_prefix('1').unwrap());
    assert_eq!(copy.extension().unwrap(), "png");
    assert!(
        copy.file_name().unwrap().to_str().unwrap().starts_with(&id),
        "{given}"
    );
    assert_eq!(fs::read(seen.with_extension("png")).unwrap(), PNG);
    assert_eq!(
        fs::read_to_string(seen.with_extension("mode"))
            .unwrap()
            .trim(),
        "700"
    );
    assert!(copy.exists());
    tui.press("qq");
    assert_eq!(tui.end().0, 0);
    assert!(!copy.exists());
}
