//! `servers import`: what other programs know is taken over with its reasons, nobody is contacted, nothing is started, no
//! secret is copied, and a hostile file is refused in words.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    fs,
    io::Write as _,
    net::{SocketAddr, TcpListener},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::support::program::{Ran, finish, program};
use crate::support::pty::TestEnv;
use serde_json::Value;

/// Counts who connects, and says nothing.
fn listen() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for _ in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (addr, count)
}

/// A home, a project and a state directory.
struct ImportEnv {
    dir: tempfile::TempDir,
    /// Is there once a command of a fixture ran.
    started: PathBuf,
    connections: Arc<AtomicUsize>,
    addr: SocketAddr,
}

impl ImportEnv {
    fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["home", "project", "state"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let (addr, connections) = listen();
        Self {
            started: dir.path().join("started"),
            dir,
            connections,
            addr,
        }
    }

    /// With a file of every program in its usual place.
    fn of_fixtures() -> Self {
        let env = Self::empty();
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import");
        env.copy(&fixtures, Path::new(""));
        env
    }

    fn copy(&self, from: &Path, to: &Path) {
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let to = to.join(path.file_name().unwrap());
            if path.is_dir() {
                self.copy(&path, &to);
            } else {
                self.write(&to, &fs::read_to_string(&path).unwrap());
            }
        }
    }

    fn write(&self, to: &Path, text: &str) -> PathBuf {
        let text = text
            .replace("@HERE@", &self.addr.to_string())
            .replace("@STARTED@", self.started.to_str().unwrap());
        let to = self.dir.path().join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        let mut file = fs::File::create(&to).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        to
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = program(&self.dir.path().join("state"), arguments);
        command
            .current_dir(self.dir.path().join("project"))
            .env("HOME", self.dir.path().join("home"));
        for variable in ["API_KEY", "SHARED_TOKEN", "NOTION_TOKEN", "X"] {
            command.env(variable, "hunter2");
        }
        finish(&mut command)
    }

    fn config(&self) -> String {
        fs::read_to_string(self.dir.path().join("state/config.toml")).unwrap_or_default()
    }

    /// Imports a file of this text, as explicitly named.
    fn import(&self, name: &str, text: &str) -> Ran {
        let path = self.write(Path::new(name), text);
        self.run(&["servers", "import", path.to_str().unwrap()])
    }

    fn is_untouched(&self) {
        assert_eq!(self.connections.load(Ordering::SeqCst), 0, "a contact");
        assert!(!self.started.exists(), "a start");
        assert!(!self.config().contains("hunter2"), "{}", self.config());
    }
}

/// `FILE NAME: OUTCOME KIND PLACE VARIABLES`, the file by its last two parts.
fn outcome(one: &Value) -> String {
    let text = |key: &str| one[key].as_str().unwrap_or("-").to_owned();
    let file = PathBuf::from(text("file"));
    let mut parts: Vec<_> = file
        .iter()
        .rev()
        .take(2)
        .map(|it| it.to_str().unwrap())
        .collect();
    parts.reverse();
    let variables: Vec<&str> = one["variables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_str().unwrap())
        .collect();
    format!(
        "{} {}: {} {} {} [{}]",
        parts.join("/"),
        text("name"),
        text("outcome"),
        text("kind"),
        text("location"),
        variables.join(" ")
    )
}

#[test]
fn imports_every_format_without_contacting_servers() {
    let env = ImportEnv::of_fixtures();
    let ran = env.run(&["servers", "import", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let document = ran.document();
    let all = document.as_array().unwrap();
    let here = env.addr.to_string();
    let of_desk = |name: &str| env.dir.path().join(name).to_str().unwrap().to_owned();
    let mut outcomes: Vec<String> = all
        .iter()
        .map(|one| {
            outcome(one)
                .replace(&here, "HERE")
                .replace(env.started.to_str().unwrap(), "STARTED")
                .replace(&of_desk("project"), "PROJECT")
                .replace(&of_desk("home"), "HOME")
        })
        .collect();
    outcomes.sort();
    let mut expected = [
        "Claude/claude_desktop_config.json filesystem: taken stdio npx -y @modelcontextprotocol/server-filesystem /home/me/Desktop []",
        "Claude/claude_desktop_config.json github: taken stdio touch STARTED [GITHUB_TOKEN]",
        "Claude/claude_desktop_config.json bridge: skipped - - []",
        "home/.claude.json sentry: taken http https://sentry.example/mcp []",
        "home/.claude.json linear: taken http https://linear.example/sse []",
        "home/.claude.json everyone: skipped - - []",
        "home/.claude.json work: taken http http://HERE/work []",
        "project/.mcp.json shared: taken http https://shared.example/mcp [SHARED_TOKEN]",
        "project/.mcp.json lint: taken stdio uvx mcp-lint [HOME]",
        "project/.mcp.json socket: skipped - - []",
        ".cursor/mcp.json lab: taken http http://HERE/mcp []",
        ".cursor/mcp.json notion: taken http https://notion.example/mcp [NOTION_TOKEN]",
        ".cursor/mcp.json docs: skipped - - []",
        ".cursor/mcp.json lab: taken http https://other.example/mcp []",
        ".vscode/mcp.json perplexity: taken http https://perplexity.example/mcp [PERPLEXITY_KEY]",
        ".vscode/mcp.json memory: skipped - - []",
        ".vscode/mcp.json here: taken stdio node PROJECT/s.js --home=HOME '${OWN}' [OWN]",
        "User/mcp.json asked: taken stdio node --home '${HOME}' '${MY_CHOICE}' [HOME MY_CHOICE]",
        "User/mcp.json elsewhere: skipped - - []",
        "User/mcp.json everywhere: skipped - - []",
        "User/mcp.json lab-again: known http http://HERE/mcp []",
        ".mcp-inspector/mcp.json everything: taken http http://HERE/everything []",
        ".mcp-inspector/mcp.json old-everything: taken http http://HERE/sse []",
        "windsurf/mcp_config.json figma: taken http https://figma.example/mcp [FIGMA_TOKEN]",
        "windsurf/mcp_config.json postgres: taken stdio uvx mcp-pg [DATABASE_PASSWORD]",
        "settings/cline_mcp_settings.json weather: taken http https://weather.example/mcp []",
        "settings/cline_mcp_settings.json asleep: skipped - - []",
        "settings/cline_mcp_settings.json plain: taken http http://far.example/mcp [PLAIN_TOKEN]",
        ".gemini/settings.json search: taken http https://search.example/mcp [SEARCH_TOKEN]",
        ".gemini/settings.json events: taken http https://events.example/sse []",
        ".gemini/settings.json python: taken stdio python -m server [PY_KEY]",
        ".codex/config.toml figment: taken http https://figment.example/mcp [FIGMENT_TOKEN TRACE_ID]",
        ".codex/config.toml context7: taken stdio npx -y @upstash/context7-mcp [LOCAL_TOKEN]",
        ".codex/config.toml off: skipped - - []",
        "goose/config.yaml developer: skipped - - []",
        "goose/config.yaml tavily: taken http https://tavily.example/mcp [TAVILY_KEY]",
        "goose/config.yaml gdrive: taken stdio npx -y @block/gdrive [GDRIVE_TOKEN]",
        "goose/config.yaml older: taken http https://older.example/sse []",
    ];
    expected.sort_unstable();
    assert_eq!(outcomes, expected);
    let words = |file: &str, name: &str| {
        let is_it =
            |one: &&Value| one["name"] == name && one["file"].as_str().unwrap().contains(file);
        all.iter().find(is_it).expect(name)["notes"].to_string()
    };
    for (file, name, why) in [
        ("Claude", "bridge", "seems to be a secret"),
        (
            "Claude",
            "github",
            "the secret in its variable GITHUB_TOKEN was not copied",
        ),
        (
            "cursor",
            "notion",
            "its Accept header was not copied: longhaul sets the header Accept itself",
        ),
        ("claude.json", "everyone", "which longhaul does not expand"),
        ("claude.json", "linear", "HTTP+SSE"),
        (
            ".mcp.json",
            "shared",
            "the default value of SHARED_TOKEN in its Authorization header was not copied",
        ),
        (
            ".mcp.json",
            "shared",
            "run `longhaul servers approve shared` to let shared receive SHARED_TOKEN",
        ),
        (".mcp.json", "socket", "longhaul does not support ws"),
        ("home/.cursor", "docs", "seems to contain a key"),
        (".vscode", "memory", "can use the envFile setting"),
        (
            ".vscode",
            "perplexity",
            "set PERPLEXITY_KEY to the value of the input perplexity-key",
        ),
        (
            "Code/User",
            "everywhere",
            "which only its own program can fill in",
        ),
        ("Code/User", "elsewhere", "its command or directory uses"),
        (
            "Code/User",
            "asked",
            "set MY_CHOICE to the value of the input my-choice",
        ),
        ("Code/User/mcp", "lab-again", "already configured as lab"),
        ("cline", "asleep", "disabled in this file"),
        (
            "cline",
            "plain",
            "put it in the environment variable PLAIN_TOKEN",
        ),
        ("cline", "plain", "plain http to another machine"),
        (".gemini", "events", "HTTP+SSE"),
        ("goose", "developer", "built into Goose"),
    ] {
        let said = words(file, name);
        assert!(said.contains(why), "{name}: {said}");
    }
    env.is_untouched();

    // What an editor fills in is filled in, where its file tells of which directory it is.
    let root = format!("ROOT = \"{}/x\"", of_desk("project"));
    assert!(env.config().contains(&root), "{}", env.config());

    // What was written is read again without a notice, and a second time takes nothing.
    let listed = env.run(&["servers", "list", "--json"]);
    assert_eq!(
        (listed.code, listed.err.as_str()),
        (Some(0), ""),
        "{listed:#?}"
    );
    let listed = listed.document();
    let state = |name: &str| {
        let is_it = |one: &&Value| one["name"] == name;
        let one = listed.as_array().unwrap().iter().find(is_it);
        one.expect(name)["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(state("sentry"), "ready");
    assert_eq!(state("lab-2"), "ready", "another server of the same name");
    assert_eq!(state("shared"), "needs-approval", "though it is set");
    assert_eq!(state("context7"), "needs-approval");
    let before = env.config();
    let again = env.run(&["servers", "import", "--json"]).document();
    let is_new = |one: &&Value| one["outcome"] == "taken";
    assert_eq!(again.as_array().unwrap().iter().find(is_new), None);
    assert_eq!(env.config(), before);
    env.is_untouched();
}

#[test]
fn the_empty_screen_previews_an_import() {
    let env = TestEnv::new();
    let (addr, connections) = listen();
    let write = |text: String| {
        fs::create_dir_all(env.path().join(".cursor")).unwrap();
        let mut file = fs::File::create(env.path().join(".cursor/mcp.json")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    let mut screen = env.open(&[], (120, 36));
    screen.wait_for("i  import servers");
    screen.press("i");
    screen.wait_for("no MCP client configuration found");
    write(format!(
        r#"{{"mcpServers": {{"lab": {{"url": "http://{addr}/mcp"}}, "odd": {{"type": "ws"}}}}}}"#
    ));
    screen.press("i");
    screen.wait_for("This doesn't contact any server or start any program.");
    screen.wait_for(&format!("new lab: http://{addr}/mcp"));
    screen.wait_for("skipped odd: longhaul does not support ws");
    screen.press("n");
    screen.wait_until("the dialog closed", |screen| {
        !screen.contents().contains("skipped odd")
    });
    let written = fs::read_to_string(env.path().join("config.toml"));
    assert_eq!(written.unwrap_or_default(), "");
    screen.press("i");
    screen.wait_for("import 1 server");
    screen.press("t");
    screen.wait_for("imported 1 server (");
    screen.wait_for(&format!("imported lab: http://{addr}/mcp"));
    screen.press("q3");
    screen.wait_for_line(&["lab", "/mcp"]);
    screen.press("i");
    screen.wait_for("nothing new to import");
    screen.press("n");
    // What may not go out without a word is asked for at once; later is an answer too.
    write(format!(
        r#"{{"mcpServers": {{"ours": {{"url": "http://{addr}/mcp", "headers": {{"X-Key": "${{X}}"}}}}}}}}"#
    ));
    screen.press("i");
    screen.wait_for("import 1 server");
    screen.press("t");
    screen.wait_for("Send these values to ours?");
    screen.wait_for(&format!(
        "X would be sent to http://{addr} in the X-Key header"
    ));
    screen.press("\x1b");
    screen.wait_for("ours needs approval");
    screen.wait_for("Imported 1 server");
    screen.press("qqq");
    screen.end();
    let config = fs::read_to_string(env.path().join("config.toml")).unwrap();
    assert!(config.contains("[servers.lab]"), "{config}");
    assert!(!config.contains("approved ="), "{config}");
    assert_eq!(connections.load(Ordering::SeqCst), 0);
}

#[test]
fn sends_no_variable_before_approval_that_names_the_host() {
    let text =
        r#"{"mcpServers": {"lab": {"url": "http://@HERE@/mcp", "headers": {"X-Key": "${X}"}}}}"#;
    let env = ImportEnv::empty();
    let ran = env.import("mcp.json", text);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.out.contains("to let lab receive X"), "{ran:#?}");
    let withheld = env.run(&["-s", "lab", "tools"]);
    assert_eq!(withheld.code, Some(3), "{withheld:#?}");
    assert!(
        withheld.err.contains("servers approve lab"),
        "{withheld:#?}"
    );
    env.is_untouched();

    let env = ImportEnv::empty();
    let path = env.write(Path::new("mcp.json"), text);
    let ran = env.run(&["servers", "import", path.to_str().unwrap(), "--yes"]);
    let says = format!("X will be sent to http://{} in the X-Key header", env.addr);
    assert!(ran.out.contains(&says), "{ran:#?}");
    assert!(
        env.config().contains("approved = \"sha256:"),
        "{}",
        env.config()
    );
    env.is_untouched();
}

#[cfg(feature = "demo")]
#[test]
fn other_headers_make_another_server_and_an_edit_does_not() {
    let env = ImportEnv::empty();
    let text = r#"{"mcpServers": {
        "mine": {"url": "http://@HERE@/mcp", "headers": {"X-Account": "${API_KEY}"}},
        "ours": {"url": "http://@HERE@/mcp", "headers": {"X-Account": "${SHARED_TOKEN}"}}
    }}"#;
    let ran = env.import("mcp.json", text);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let config = env.config();
    assert!(config.contains("[servers.mine]") && config.contains("[servers.ours]"));
    let mended = config.replace("${API_KEY}", "${X}");
    let path = env.dir.path().join("state/config.toml");
    longhaul::store::write_atomically(&path, mended.as_bytes()).unwrap();
    let again = env.import("mcp.json", text);
    for name in ["mine", "ours"] {
        let words = format!("already configured as {name}");
        assert!(again.out.contains(&words), "{again:#?}");
    }
    env.is_untouched();
}

/// Two projects may each have a `server.py`: the approval of one must not start the other.
#[test]
fn a_program_of_another_project_is_another_server() {
    let env = ImportEnv::empty();
    let text = r#"{"mcpServers": {"rel": {"command": "sh", "args": ["server.sh"]}}}"#;
    for project in ["one", "two"] {
        env.write(&Path::new(project).join("server.sh"), "touch @STARTED@");
        let ran = env.import(&format!("{project}/.mcp.json"), text);
        assert_eq!(ran.code, Some(0), "{ran:#?}");
    }
    let config = env.config();
    for (name, project) in [("rel", "one"), ("rel-2", "two")] {
        let cwd = env.dir.path().join(project);
        let (_, server) = config.split_once(&format!("[servers.{name}]\n")).unwrap();
        let cwd = format!("cwd = \"{}\"", cwd.display());
        assert!(server.contains(&cwd), "{config}");
    }
    let asked = env.run(&["servers", "approve", "rel-2"]);
    let directory = env.dir.path().join("two").display().to_string();
    assert!(asked.err.contains(&directory), "{asked:#?}");
    let again = env.import("two/.mcp.json", text);
    let words = "already configured as rel-2";
    assert!(again.out.contains(words), "{again:#?}");
    env.is_untouched();
}

/// Without a directory, approval is for the current one, if the command names something in it.
#[test]
fn approval_is_for_the_files_of_one_directory() {
    let env = ImportEnv::empty();
    env.write(Path::new("project/server.sh"), "exit 0");
    let text = r#"{"mcpServers": {
        "rel": {"command": "sh", "args": ["server.sh"]},
        "far": {"command": "sh", "args": ["-c", "exit 0"]}
    }}"#;
    env.import("mcp.json", text);
    for name in ["rel", "far"] {
        let ran = env.run(&["servers", "approve", name, "--yes"]);
        assert_eq!(ran.code, Some(0), "{ran:#?}");
    }
    let listed = env.run(&["servers", "list", "--json"]).document();
    let server = |name: &str| {
        let mut servers = listed.as_array().unwrap().iter();
        servers.find(|it| it["name"] == name).unwrap().clone()
    };
    let project = env.dir.path().join("project").canonicalize().unwrap();
    assert_eq!(server("rel")["cwd"], project.to_str().unwrap());
    assert_eq!(server("far")["cwd"], Value::Null);
    for name in ["rel", "far"] {
        assert_eq!(server(name)["state"], "ready", "{listed:#?}");
    }
    let again = env.import("mcp.json", text);
    let words = "already configured as rel";
    assert!(again.out.contains(words), "{again:#?}");
}

#[test]
fn other_variables_make_another_server() {
    let env = ImportEnv::empty();
    let text = r#"{"mcpServers": {"local": {"command": "server"}}}"#;
    env.import("mcp.json", text);
    let keyed = r#"{"mcpServers": {"keyed": {"command": "server", "env": {"KEY": "${X}"}}}}"#;
    env.import("other.json", keyed);
    let config = env.config();
    assert!(config.contains("[servers.keyed]"), "{config}");
    let edited = keyed.replace("${X}", "${API_KEY}");
    let ran = env.import("other.json", &edited);
    let words = "longhaul keeps its own headers and variables and ignores those in this file";
    assert!(ran.out.contains(words), "{ran:#?}");
}

#[test]
fn an_import_cannot_replace_a_known_server() {
    let env = ImportEnv::empty();
    let server = crate::support::server::demo(env.dir.path().join("server"));
    let url = server.url();
    let called = env.run(&[
        "-s",
        &url,
        "--session",
        "nightly",
        "call",
        "send_burst",
        "count=1",
    ]);
    assert_eq!(called.code, Some(0), "{called:#?}");
    let name = url.trim_start_matches("http://").trim_end_matches("/mcp");
    let text = format!(r#"{{"mcpServers": {{"{name}": {{"url": "http://@HERE@/mcp"}}}}}}"#);
    let ran = env.import("mcp.json", &text);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.out.contains(&format!("{name} as {name}-2")), "{ran:#?}");
    let again = env.run(&["-s", name, "--session", "nightly", "tools"]);
    assert_eq!(again.code, Some(0), "{again:#?}");
    env.is_untouched();
}

#[test]
fn rejects_a_hostile_file_with_a_reason() {
    let entry = |json: &str| format!(r#"{{"mcpServers": {{"it": {json}}}}}"#);
    let cases = [
        (
            entry(r#"{"command": "sh\nrm -rf ~", "args": []}"#),
            "control or invisible character",
        ),
        (
            entry(r#"{"command": "touch", "args": ["@STARTED@", "a\u202eb"]}"#),
            "control or invisible character",
        ),
        (
            entry(r#"{"command": "touch", "args": ["@STARTED@", "a\u001b[2J"]}"#),
            "control or invisible character",
        ),
        (
            entry(r#"{"command": "touch", "env": {"A": "b\nc"}}"#),
            "control or invisible character",
        ),
        (
            entry(r#"{"command": "touch", "env": {"A B": "c"}}"#),
            "an invalid variable name",
        ),
        (
            entry(r#"{"command": ["sh", "-c"]}"#),
            "its command is not a string",
        ),
        (
            entry(r#"{"url": "https://${X}.evil.example/"}"#),
            "contains a variable",
        ),
        (
            entry(r#"{"url": "https://evil.example/?a=${X}"}"#),
            "contains a variable",
        ),
        (
            entry(r#"{"url": "https://evil.example/$X"}"#),
            "contains a variable",
        ),
        (
            entry(r#"{"url": "https://me:hunter2@evil.example/"}"#),
            "contains a password",
        ),
        (
            entry(r#"{"url": "https://evil\n.example/"}"#),
            "spaces or invisible characters",
        ),
        (
            entry(r#"{"url": "file:///etc/passwd"}"#),
            "must begin with http",
        ),
        (
            entry(r#"{"url": "https://evil.example/", "headers": {"A": "${input:../x}"}}"#),
            "only its own program can fill in",
        ),
        (
            entry(r#"{"url": "https://evil.example/", "headers": {"A": "b\r\nHost: c"}}"#),
            "control or invisible character",
        ),
        (
            entry(r#"{"url": "https://evil.example/", "headers": {"A: b": "c"}}"#),
            "is invalid",
        ),
        (
            entry(r#"{"url": "https://evil.example/", "headers": ["Authorization"]}"#),
            "not a table",
        ),
        (
            entry(r#"{"url": "https://evil.example/", "command": "touch"}"#),
            "a url and a command",
        ),
        (entry("{}"), "neither a url nor a command"),
        (entry("7"), "not a table"),
        (
            r#"{"mcpServers": {"a\u202eb": {"url": "https://evil.example/"}}}"#.to_owned(),
            "invalid server name",
        ),
        (
            r#"{"mcpServers": {"https://x": {"url": "https://evil.example/"}}}"#.to_owned(),
            "invalid server name",
        ),
        (r#"{"mcpServers": "#.to_owned(), "invalid JSON at line 1"),
        ("\n\n{\"hunter2\"".to_owned(), "invalid JSON at line 3"),
        (
            format!(
                r#"{{"mcpServers": {}1{}}}"#,
                "[".repeat(100_000),
                "]".repeat(100_000)
            ),
            "invalid JSON",
        ),
        (
            format!("{{\"mcpServers\": {{}}}}{}", " ".repeat(10 << 20)),
            "too large",
        ),
        ("[]".to_owned(), "top level is not a table"),
        ("{\"other\": {}}".to_owned(), "no MCP servers found"),
    ];
    let env = ImportEnv::empty();
    for (text, why) in &cases {
        let ran = env.import("mcp.json", text);
        let said = format!("{}{}", ran.out, ran.err);
        assert_eq!(ran.code, Some(2), "{why}: {said}");
        assert!(said.contains(why), "{why}: {said}");
        let is_clean = said
            .chars()
            .all(|letter| letter == '\n' || !longhaul::domain::text::is_hostile(letter));
        assert!(is_clean && !said.contains("hunter2"), "{said:?}");
        assert_eq!(env.config(), "", "{why}");
    }
    for (name, text, why) in [
        ("bomb.yaml", bomb(), "invalid YAML"),
        (
            "deep.yaml",
            format!("extensions: {}", "[".repeat(100_000)),
            "invalid YAML",
        ),
        ("broken.yaml", "hunter2: [".to_owned(), "invalid YAML"),
        (
            "broken.toml",
            "hunter2 = \"".to_owned(),
            "invalid TOML at line 1",
        ),
        (
            "deep.toml",
            format!("a = {}", "[".repeat(100_000)),
            "invalid TOML",
        ),
    ] {
        let ran = env.import(name, &text);
        assert_eq!(ran.code, Some(2), "{name}: {ran:#?}");
        assert!(ran.err.contains(why), "{name}: {ran:#?}");
        assert!(!ran.err.contains("hunter2"), "{name}: {ran:#?}");
    }
    env.is_untouched();
}

/// Aliases of aliases: a few lines that stand for billions of words.
fn bomb() -> String {
    let level = |level: usize| {
        let below = vec![format!("*a{}", level - 1); 9].join(", ");
        format!("a{level}: &a{level} [{below}]\n")
    };
    let levels: String = (1..12).map(level).collect();
    format!("a0: &a0 [x, x, x, x, x, x, x, x, x]\n{levels}extensions: {{}}\n")
}

#[test]
fn rejects_anything_but_a_plain_text_file() {
    let env = ImportEnv::empty();
    let root = env.dir.path();
    let good = env.write(
        Path::new("good.json"),
        r#"{"mcpServers": {"a": {"url": "https://a.example/"}}}"#,
    );
    let link = root.join("project/.mcp.json");
    symlink(&good, &link).unwrap();
    let pipe = root.join("pipe.json");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let latin = root.join("latin.json");
    let mut file = fs::File::create(&latin).unwrap();
    file.write_all(b"{\"mcpServers\": \"\xe9\"}").unwrap();
    for (path, why) in [
        (link.as_path(), "symlinks are not followed"),
        (&pipe, "not a regular file"),
        (&latin, "not UTF-8 text"),
        (&root.join("home"), "not a regular file"),
        (&root.join("nowhere"), "could not import"),
        (Path::new("/dev/zero"), "not a regular file"),
    ] {
        let ran = env.run(&["servers", "import", path.to_str().unwrap()]);
        assert_eq!(ran.code, Some(2), "{ran:#?}");
        assert!(ran.err.contains(why), "{ran:#?}");
    }
    // Found by itself, one of them stands in nobody's way.
    env.write(
        Path::new("home/.cursor/mcp.json"),
        r#"{"mcpServers": {"b": {"url": "https://b.example/"}}}"#,
    );
    let ran = env.run(&["servers", "import"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.out.contains("symlinks are not followed"), "{ran:#?}");
    assert!(
        ran.out.contains("imported b: https://b.example/"),
        "{ran:#?}"
    );
    let mode = fs::metadata(root.join("state/config.toml")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    env.is_untouched();

    let nothing = ImportEnv::empty().run(&["servers", "import"]);
    assert_eq!(nothing.code, Some(0), "{nothing:#?}");
    assert!(
        nothing.err.contains("no MCP client configuration found"),
        "{nothing:#?}"
    );
}

#[test]
fn finds_project_files_of_every_host_after_those_of_the_user() {
    let env = ImportEnv::empty();
    let zed = r#"{"context_servers": {"a": {"url": "https://a.example/"}}}"#;
    let opencode = r#"{"mcp": {"b": {"type": "remote", "url": "https://b.example/"}}}"#;
    let inspector = r#"{"mcpServers": {"c": {"url": "https://c.example/"}}}"#;
    env.write(Path::new("project/.zed/settings.json"), zed);
    env.write(Path::new("project/opencode.jsonc"), opencode);
    env.write(Path::new("home/.mcp-inspector/mcp.json"), inspector);
    let ran = env.run(&["servers", "import"]);
    let names = ["imported c: ", "imported a: ", "imported b: "];
    let found = names.map(|name| ran.out.find(name).expect(&ran.out));
    assert!(found.is_sorted(), "{ran:#?}");
}
