//! `wrap` and `unwrap`: the configuration of each host, byte for byte as before.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use longhaul::store::write_atomically;

use crate::support::program::{Ran, finish, program};

/// Each host, the file below the home directory, and what is in it: comments, unknown keys, a secret.
const HOSTS: [(&str, &str, &str); 11] = [
    (
        "claude-code",
        ".claude.json",
        "{\r\n  // mine\r\n  \"mcpServers\": {\r\n    \"lab\": { \"type\": \"http\", \"url\": \"https://lab.example/mcp\",\r\n      \"headers\": {\"Authorization\": \"Bearer sk-0123456789abcdefghij\"}, \"timeout\": 5 }\r\n  },\r\n  \"x\": 1\r\n}\r\n",
    ),
    (
        "claude-desktop",
        ".config/Claude/claude_desktop_config.json",
        "{\"mcpServers\": {\"lab\": {\"command\": \"npx\", \"args\": [\"-y\", \"@lab/server\"], \"env\": {\"API_KEY\": \"sk-0123456789abcdefghij\"}}}}",
    ),
    (
        "codex",
        ".codex/config.toml",
        "# mine\nmodel = \"m\"\n\n[mcp_servers.lab] # here\nurl = \"https://lab.example/mcp\"\nhttp_headers = { X-Api-Key = \"sk-0123456789abcdefghij\" }\ntool_timeout_sec = 5\n\n[x]\ny = 1\n",
    ),
    (
        "codex",
        ".codex/config.toml",
        "[mcp_servers]\nlab = { url = \"https://lab.example/mcp\", oauth_resource = \"https://lab.example\" } # mine\n",
    ),
    (
        "cursor",
        ".cursor/mcp.json",
        "{\n\t\"mcpServers\": {\n\t\t\"lab\": {\"url\": \"https://lab.example/mcp\"}, // mine\n\t},\n}\n",
    ),
    (
        "vscode",
        ".config/Code/User/mcp.json",
        "{\"servers\": {\"lab\": {\"type\": \"http\", \"url\": \"https://lab.example/mcp\", \"dev\": {}}}, \"inputs\": []}",
    ),
    (
        "gemini",
        ".gemini/settings.json",
        "{\"theme\": \"x\", \"mcpServers\": {\"lab\": {\"httpUrl\": \"https://lab.example/mcp\", \"trust\": true}}}",
    ),
    (
        "gemini",
        ".gemini/settings.json",
        "{\"mcpServers\": {\"lab\": {\"httpUrl\": \"https://lab.example/mcp\", \"headers\": {\"Authorization\": \"Bearer $MY_TOKEN\", \"X-Key\": \"sk-0123456789abcdefghij\"}}}}",
    ),
    (
        "goose",
        ".config/goose/config.yaml",
        "GOOSE_MODEL: m\nextensions:\n  # mine\n  lab:\n    enabled: true\n    type: streamable_http\n    uri: https://lab.example/mcp\n    timeout: 300\nlast: 1\n",
    ),
    (
        "zed",
        ".config/zed/settings.json",
        "// mine\n{\"context_servers\": {\"lab\": {\"source\": \"custom\", \"command\": {\"path\": \"npx\", \"args\": [\"-y\", \"@lab/server\"]}}}}",
    ),
    (
        "opencode",
        ".config/opencode/opencode.json",
        "{\"mcp\": {\"lab\": {\"type\": \"local\", \"command\": [\"npx\", \"@lab/server\"], \"enabled\": true}}}",
    ),
];

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_atomically(&path, text.as_bytes()).unwrap();
        path
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        finish(&mut self.program(arguments))
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = program(&self.path().join("state"), arguments);
        let home = self.path().join("project");
        fs::create_dir_all(&home).unwrap();
        command
            .current_dir(home)
            .env("HOME", self.path())
            .env("XDG_CONFIG_HOME", self.path().join(".config"))
            .env_remove("LONGHAUL_CONFIG");
        command
    }

    fn ok(&self, arguments: &[&str]) -> Ran {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:#?}");
        ran
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn each_host_is_wrapped_and_restored() {
    for (host, file, text) in HOSTS {
        let home = Home::new();
        let path = home.write(file, text);
        let mode = fs::Permissions::from_mode(0o640);
        fs::set_permissions(&path, mode).unwrap();
        home.ok(&["wrap", host, "--yes"]);
        let wrapped = read(&path);
        assert!(
            wrapped.contains("longhaul") && wrapped.contains("proxy"),
            "{host}: {wrapped}"
        );
        assert!(
            !wrapped.contains("lab.example") && !wrapped.contains("npx"),
            "{host}: {wrapped}"
        );
        // Gemini CLI passes on only the variables that it finds in `env`.
        let forwards = wrapped.contains(r#""MY_TOKEN":"$MY_TOKEN""#);
        assert_eq!(forwards, text.contains("MY_TOKEN"), "{host}: {wrapped}");
        // Secrets stay where they are.
        let secret = "sk-0123456789abcdefghij";
        assert_eq!(
            wrapped.contains(secret),
            text.contains(secret),
            "{host}: {wrapped}"
        );
        let config = read(&home.path().join(".config/longhaul/config.toml"));
        assert!(
            config.contains("[servers.lab]") && !config.contains(secret),
            "{config}"
        );
        let listed = home.ok(&["wrap", "--list", host]).out;
        assert!(listed.contains("wrapped  lab"), "{listed}");
        // Wrapping twice changes nothing.
        home.ok(&["wrap", host, "--yes"]);
        assert_eq!(read(&path), wrapped, "{host}");
        home.ok(&["unwrap", host, "--yes"]);
        assert_eq!(read(&path), text, "{host}");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "{host}");
        let siblings = fs::read_dir(path.parent().unwrap()).unwrap();
        let names = siblings.map(|it| it.unwrap().file_name().into_string().unwrap());
        assert!(
            !names
                .into_iter()
                .any(|name| name.contains("longhaul-backup")),
            "{host}"
        );
    }
}

#[test]
fn other_changes_to_the_file_stay() {
    let home = Home::new();
    let (_, file, text) = HOSTS[0];
    let target = home.write("dotfiles/claude.json", text);
    let path = home.path().join(file);
    symlink(&target, &path).unwrap();
    home.ok(&["wrap", "claude-code", "--yes"]);
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    let changed = read(&path).replace("\"x\": 1", "\"x\": 2");
    // A host that writes its file again may use other spaces.
    let changed = changed.replace("{ \"", "{\n  \"");
    write_atomically(&target, changed.as_bytes()).unwrap();
    home.ok(&["unwrap", "claude-code", "--yes"]);
    assert_eq!(read(&target), text.replace("\"x\": 1", "\"x\": 2"));
    // An entry that somebody else has changed is left alone, and its original is kept.
    home.ok(&["wrap", "claude-code", "--yes"]);
    let changed = read(&target).replace("\"proxy\"", "\"proxy\", \"--patience=9s\"");
    write_atomically(&target, changed.as_bytes()).unwrap();
    let ran = home.run(&["unwrap", "claude-code", "--yes"]);
    assert!(
        ran.err.contains("was changed after it was wrapped"),
        "{ran:#?}"
    );
    assert_eq!(read(&target), changed);
    assert!(
        read(&home.path().join("dotfiles/claude.json.longhaul-backup")).contains("lab.example")
    );
}

#[test]
fn a_project_of_claude_code_is_wrapped_and_restored() {
    let home = Home::new();
    let here = home.path().canonicalize().unwrap().join("project");
    let text = format!(
        r#"{{"projects": {{"{}": {{"mcpServers": {{"lab": {{"command": "npx", "args": ["b"]}}}}}}}}, "mcpServers": {{"lab": {{"command": "npx", "args": ["a"]}}}}}}"#,
        here.display()
    );
    let path = home.write(".claude.json", &text);
    home.ok(&["wrap", "claude-code", "--yes"]);
    let wrapped = read(&path);
    assert!(
        wrapped.contains(r#"["proxy","lab"]"#) && wrapped.contains(r#"["proxy","lab-2"]"#),
        "{wrapped}"
    );
    let config = read(&home.path().join(".config/longhaul/config.toml"));
    let directory = format!("cwd = \"{}\"", here.display());
    assert!(config.contains(&directory), "{config}");
    home.ok(&["unwrap", "claude-code", "--yes"]);
    assert_eq!(read(&path), text);
}

#[test]
fn only_servers_of_a_project_start_in_its_directory() {
    let home = Home::new();
    let here = home.path().canonicalize().unwrap().join("project");
    let directory = format!("cwd = \"{}\"", here.display());
    let opencode = r#"{"mcp": {"lab": {"type": "local", "command": ["npx", "b"]}}}"#;
    let zed = r#"{"context_servers": {"lab": {"command": "npx", "args": ["a"]}}}"#;
    for (host, file, text, is_of_project) in [
        (
            "opencode",
            ".config/opencode/opencode.json",
            opencode,
            false,
        ),
        (
            "opencode",
            "settings/opencode/opencode.jsonc",
            opencode,
            false,
        ),
        ("opencode", "project/opencode.jsonc", opencode, true),
        ("zed", "project/.zed/settings.json", zed, true),
    ] {
        let path = home.write(file, text);
        let settings = if file.starts_with("settings") {
            "settings"
        } else {
            ".config"
        };
        let mut wrap = home.program(&["wrap", host, "--yes"]);
        wrap.env("XDG_CONFIG_HOME", home.path().join(settings));
        let ran = finish(&mut wrap);
        assert_eq!(ran.code, Some(0), "{file}: {ran:#?}");
        let config = read(&home.path().join(settings).join("longhaul/config.toml"));
        assert_eq!(
            config.contains(&directory),
            is_of_project,
            "{file}: {config}"
        );
        assert!(!config.contains("cwd") || is_of_project, "{file}: {config}");
        fs::remove_file(path).unwrap();
        fs::remove_dir_all(home.path().join(settings).join("longhaul")).unwrap();
    }
}

#[test]
fn what_only_the_host_can_fill_in_stays_with_it() {
    let home = Home::new();
    let inputs = r#"{"servers": {"lab": {"url": "https://lab.example/mcp", "headers": {"X-Key": "${input:key}"}}, "env": {"command": "npx", "envFile": ".env"}}}"#;
    let path = home.write(".config/Code/User/mcp.json", inputs);
    let ran = home.ok(&["wrap", "vscode", "--yes"]);
    assert!(
        ran.err.contains("only vscode can use the envFile setting"),
        "{ran:#?}"
    );
    let wrapped = read(&path);
    assert!(
        wrapped.contains(r#""env": {"LAB_KEY":"${input:key}"}"#) && wrapped.contains(r#""npx""#),
        "{wrapped}"
    );
    let keys = "extensions:\n  lab:\n    type: stdio\n    cmd: npx\n    env_keys: [LAB_KEY]\n";
    let path = home.write(".config/goose/config.yaml", keys);
    home.ok(&["wrap", "goose", "--yes"]);
    let wrapped = read(&path);
    assert!(wrapped.contains("env_keys: [LAB_KEY]"), "{wrapped}");
    let mixed = "extensions:\n  web:\n    type: streamable_http\n    uri: https://web.example/mcp\n    headers: {X-Org: team-$ORG}\n";
    home.write(".config/goose/config.yaml", mixed);
    let ran = home.ok(&["wrap", "goose", "--yes"]);
    let words = "skipped web: its X-Org header combines a variable with other text";
    assert!(ran.err.contains(words), "{ran:#?}");
    home.write(".config/goose/config.yaml", &wrapped);
    // A file that may not be changed stays.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let ran = home.run(&["unwrap", "goose", "--yes"]);
    assert!(ran.err.contains("it is read-only"), "{ran:#?}");
    assert_eq!(read(&path), wrapped);
    // Nothing else is written for it.
    let path = home.write(
        ".claude.json",
        r#"{"mcpServers": {"own": {"command": "own"}}}"#,
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let ran = home.run(&["wrap", "claude-code", "--yes"]);
    assert!(ran.err.contains("it is read-only"), "{ran:#?}");
    let config = read(&home.path().join(".config/longhaul/config.toml"));
    assert!(!config.contains("servers.own"), "{config}");
}

#[test]
fn no_server_gets_the_secret_of_another() {
    let home = Home::new();
    let server = |name: &str, secret: &str| {
        format!(
            r#""{name}": {{"command": "npx", "args": ["{name}"], "env": {{"API_KEY": "sk-0123456789abcdefghij-{secret}"}}}}"#
        )
    };
    let write = |file: &str, servers: &[String]| {
        let servers = servers.join(", ");
        home.write(file, &format!(r#"{{"mcpServers": {{{servers}}}}}"#))
    };
    let both = [server("one", "a"), server("two", "b")];
    let claude = write(".claude.json", &both);
    let cursor = write(".cursor/mcp.json", &[server("one", "c")]);
    let gemini = write(".gemini/settings.json", &[server("one", "a")]);
    for host in ["claude-code", "cursor", "gemini"] {
        home.ok(&["wrap", host, "--yes"]);
    }
    let passes = |file: &Path, server: &str, variable: &str, secret: &str| {
        let text = read(file);
        let args = format!(r#"["proxy","{server}"]"#);
        let variable = format!(r#"{{"{variable}":"sk-0123456789abcdefghij-{secret}"}}"#);
        assert!(text.contains(&args) && text.contains(&variable), "{text}");
    };
    passes(&claude, "one", "ONE_API_KEY", "a");
    passes(&claude, "two", "TWO_API_KEY", "b");
    // Another account is another server, and the same account the same one.
    passes(&cursor, "one-2", "ONE_2_API_KEY", "c");
    passes(&gemini, "one", "ONE_API_KEY", "a");
    let wrapped = read(&cursor);
    home.ok(&["unwrap", "cursor", "--yes"]);
    home.ok(&["wrap", "cursor", "--yes"]);
    assert_eq!(read(&cursor), wrapped, "as before");
    // What a host has in its environment may be another secret too.
    let own = r#"{"servers": {"one": {"command": "npx", "args": ["one"], "env": {"API_KEY": "${env:MY_KEY}"}}}}"#;
    let vscode = home.write(".config/Code/User/mcp.json", own);
    home.ok(&["wrap", "vscode", "--yes"]);
    assert!(read(&vscode).contains(r#"["proxy","one-3"]"#));
    let config = read(&home.path().join(".config/longhaul/config.toml"));
    assert!(config.contains(r#"env = { API_KEY = "${TWO_API_KEY}" }"#) && !config.contains("sk-"));
    assert_eq!(config.matches("[servers.").count(), 4, "{config}");
}

#[test]
fn two_headers_never_share_a_variable() {
    let home = Home::new();
    let entry = r#"{"mcpServers": {"lab": {"url": "https://lab.example/mcp", "headers": {"Authorization": "Bearer secret-a", "X-Token": "secret-b"}}}}"#;
    let file = home.write(".claude.json", entry);
    let ran = home.run(&["wrap", "claude-code", "--yes"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let wrapped = read(&file);
    for passed in [r#""LAB_TOKEN":"secret-a""#, r#""LAB_TOKEN_":"secret-b""#] {
        assert!(wrapped.contains(passed), "{wrapped}");
    }
}

#[test]
fn no_project_gets_the_secret_of_another() {
    let home = Home::new();
    let server = |secret: &str| {
        format!(
            r#"{{"mcpServers": {{"web": {{"url": "https://web.example/mcp", "headers": {{"Authorization": "Bearer secret-{secret}"}}}}}}}}"#
        )
    };
    let wrap = |directory: &str| {
        let mut wrap = home.program(&["wrap", "claude-code", "--yes"]);
        let directory = home.path().canonicalize().unwrap().join(directory);
        let ran = finish(wrap.current_dir(directory));
        assert_eq!(ran.code, Some(0), "{ran:#?}");
    };
    let passes = |file: &Path, server: &str, variable: &str| {
        let text = read(file);
        let args = format!(r#"["proxy","{server}"]"#);
        assert!(text.contains(&args) && text.contains(variable), "{text}");
    };
    let one = home.write("one/.mcp.json", &server("a"));
    let two = home.write("two/.mcp.json", &server("b"));
    wrap("one");
    wrap("two");
    passes(&one, "web", r#""WEB_TOKEN":"secret-a""#);
    passes(&two, "web-2", r#""WEB_2_TOKEN":"secret-b""#);
    // Even if the values are equal: the other file can't be seen from here.
    let three = home.write("three/.mcp.json", &server("a"));
    wrap("three");
    passes(&three, "web-3", r#""WEB_3_TOKEN":"secret-a""#);
    // The same entry again is the same server.
    let mut unwrap = home.program(&["unwrap", "claude-code", "--yes"]);
    finish(unwrap.current_dir(home.path().join("two")));
    assert_eq!(read(&two), server("b"));
    wrap("two");
    passes(&two, "web-2", r#""WEB_2_TOKEN":"secret-b""#);
    // Two projects in one file.
    let real = home.path().canonicalize().unwrap();
    let real = real.display();
    let (one, two) = (server("c"), server("d"));
    let text = format!(r#"{{"projects": {{"{real}/one": {one}, "{real}/two": {two}}}}}"#);
    let both = home.write(".claude.json", &text);
    wrap("one");
    wrap("two");
    passes(&both, "web-4", r#""WEB_4_TOKEN":"secret-c""#);
    passes(&both, "web-5", r#""WEB_5_TOKEN":"secret-d""#);
    // Without a secret, they are the same server.
    let plain = r#"{"mcpServers": {"web": {"url": "https://plain.example/mcp", "headers": {"X-Key": "${KEY}"}}}}"#;
    let plain = ["four", "five"].map(|it| home.write(&format!("{it}/.mcp.json"), plain));
    wrap("four");
    wrap("five");
    for file in &plain {
        passes(file, "web-6", "proxy");
    }
}

#[test]
fn what_only_the_host_can_fill_in_is_translated_or_skipped() {
    let home = Home::new();
    let text = r#"{"mcp": {
        "one": {"type": "local", "command": ["npx", "--dir={env:DIR}"], "environment": {"JOURNAL": "{env:OCJ}"}, "timeout": 12000},
        "two": {"type": "local", "command": ["npx", "{file:~/x}"]}}}"#;
    let path = home.write(".config/opencode/opencode.json", text);
    let ran = home.run(&["wrap", "opencode", "--yes"]);
    assert!(ran.err.contains("skipped two: "), "{ran:#?}");
    let wrapped = read(&path);
    let one = r#""proxy","one","--patience","9600ms"]"#;
    assert!(
        wrapped.contains(one) && wrapped.contains("{file:~/x}"),
        "{wrapped}"
    );
    let config = read(&home.path().join(".config/longhaul/config.toml"));
    assert!(
        config.contains("${OCJ}") && config.contains("--dir=${DIR}"),
        "{config}"
    );
    home.ok(&["unwrap", "opencode", "--yes"]);
    assert_eq!(read(&path), text);
    // Claude Code ignores timeouts of less than a second.
    let text = r#"{"mcpServers": {"long": {"command": "npx", "timeout": 60000}, "short": {"command": "npm", "timeout": 500}}}"#;
    let path = home.write(".claude.json", text);
    home.ok(&["wrap", "claude-code", "--yes"]);
    let wrapped = read(&path);
    assert!(
        wrapped.contains(r#"["proxy","long","--patience","48s"]"#)
            && wrapped.contains(r#"["proxy","short"]"#),
        "{wrapped}"
    );
}

#[test]
fn an_entry_with_its_own_sign_in_is_skipped() {
    let home = Home::new();
    for (host, file, key) in [
        ("claude-code", ".claude.json", r#""headersHelper": "/x""#),
        (
            "claude-code",
            ".claude.json",
            r#""oauth": {"clientId": "x"}"#,
        ),
        (
            "gemini",
            ".gemini/settings.json",
            r#""authProviderType": "google_credentials""#,
        ),
        (
            "cursor",
            ".cursor/mcp.json",
            r#""auth": {"CLIENT_ID": "x"}"#,
        ),
    ] {
        let text =
            format!(r#"{{"mcpServers": {{"lab": {{"url": "https://lab.example/mcp", {key}}}}}}}"#);
        let path = home.write(file, &text);
        let ran = home.ok(&["wrap", host, "--yes"]);
        let name = key.split('"').nth(1).unwrap();
        let words = format!("skipped lab: only {host} can use the {name} setting");
        assert!(ran.err.contains(&words), "{ran:#?}");
        assert_eq!(read(&path), text);
    }
    // A variable of Codex can be a table.
    let codex = "[mcp_servers.lab]\ncommand = \"npx\"\nenv_vars = [\"AA\", { name = \"BB\", source = \"local\" }]\n";
    let path = home.write(".codex/config.toml", codex);
    home.ok(&["wrap", "codex", "--yes"]);
    let variables = r#"env_vars = ["AA", { name = "BB", source = "local" }]"#;
    assert!(read(&path).contains(variables), "{}", read(&path));
    let config = read(&home.path().join(".config/longhaul/config.toml"));
    assert!(
        config.contains(r#"env = { AA = "${AA}", BB = "${BB}" }"#),
        "{config}"
    );
    home.ok(&["unwrap", "codex", "--yes"]);
    assert_eq!(read(&path), codex);
}

#[test]
fn no_name_of_a_server_is_taken_for_an_option() {
    let home = Home::new();
    let text = r#"{"mcpServers": {"--help": {"command": "npx"}, "--": {"command": "npm"}}}"#;
    let path = home.write(".claude.json", text);
    let ran = home.ok(&["wrap", "claude-code", "--yes"]);
    assert!(
        read(&path).contains(r#"["proxy","help"]"#),
        "{}",
        read(&path)
    );
    assert!(
        ran.err.contains("longhaul servers approve help"),
        "{ran:#?}"
    );
    assert!(
        ran.err.contains("skipped --: invalid server name"),
        "{ran:#?}"
    );
    home.ok(&["unwrap", "claude-code", "--yes"]);
    assert_eq!(read(&path), text);
}

#[test]
fn the_proxy_uses_the_same_state_and_configuration() {
    let home = Home::new();
    let text = r#"{"mcpServers": {"lab": {"command": "npx"}}}"#;
    let path = home.write(".claude.json", text);
    let config = home.write("own.toml", "");
    let mut wrap = home.program(&["--state-dir", "st", "wrap", "claude-code", "--yes"]);
    let ran = finish(wrap.env("LONGHAUL_CONFIG", &config));
    let state = home.path().canonicalize().unwrap().join("project/st");
    let args = format!(r#"["--state-dir","{}","proxy","lab"]"#, state.display());
    assert!(read(&path).contains(&args), "{}", read(&path));
    let words = "LONGHAUL_CONFIG is set in this shell; set it in claude-code's environment too";
    assert!(ran.err.contains(words), "{ran:#?}");
}

#[test]
fn a_broken_file_does_not_stop_the_others() {
    let home = Home::new();
    home.write(".claude.json", "{ broken");
    let text = r#"{"mcpServers": {"lab": {"command": "npx"}}}"#;
    let path = home.write("project/.mcp.json", text);
    for (verb, servers, code) in [
        ("wrap", &["lab"][..], 0),
        ("unwrap", &["lab"], 0),
        ("wrap", &["other"], 2),
        ("wrap", &[], 2),
    ] {
        let ran = home.run(&[&[verb, "claude-code", "--yes"], servers].concat());
        assert_eq!(ran.code, Some(code), "{ran:#?}");
        assert!(
            ran.err.contains(".claude.json: it is not valid JSON"),
            "{ran:#?}"
        );
        let is_wrapped = read(&path).contains("proxy");
        assert_eq!(
            is_wrapped,
            verb == "wrap" && servers != ["other"],
            "{ran:#?}"
        );
    }
}

#[test]
fn secrets_of_other_servers_are_not_shown() {
    let home = Home::new();
    let secrets = r#"{"mcpServers": {"lab": {"url": "https://lab.example/mcp", "headers": {"Authorization": "Bearer sk\u002d0123456789abcdefghij"}}, "other": {"command": "npx", "env": {"API_KEY": "sk-9876543210abcdefghij"}}}}"#;
    home.write(".claude.json", secrets);
    let ran = home.run(&["wrap", "claude-code", "lab"]);
    assert!(
        ran.err.contains("\"Bearer ***\"") && !ran.err.contains("0123456789"),
        "{ran:#?}"
    );
    assert!(!ran.err.contains("9876543210"), "{ran:#?}");
    // A secret in the path of a URL can't be moved anywhere.
    let token = "0123456789abcdef0123456789abcdef";
    let text =
        format!(r#"{{"mcpServers": {{"zap": {{"url": "https://zap.example/s/{token}/mcp"}}}}}}"#);
    home.write(".claude.json", &text);
    let ran = home.run(&["wrap", "claude-code", "--yes"]);
    assert!(
        ran.err.contains("skipped zap: ") && !ran.err.contains(token),
        "{ran:#?}"
    );
}

#[test]
fn no_value_of_a_variable_is_copied() {
    let home = Home::new();
    // What only looks like a variable is a value too.
    let login = "admin:Xy$9kLm";
    let text = format!(
        r#"{{"mcpServers": {{"web": {{"url": "https://web.example/mcp", "headers": {{"X-Login": "{login}", "X-Org": "team-${{ORG}}"}}}}, "lab": {{"command": "npx", "env": {{"DB_LOGIN": "{login}", "OWN": "${{OWN}}"}}}}}}}}"#
    );
    let path = home.write(".claude.json", &text);
    let ran = home.run(&["wrap", "claude-code"]);
    assert!(
        !ran.err.contains(login) && ran.err.contains("***"),
        "{ran:#?}"
    );
    home.ok(&["wrap", "claude-code", "--yes"]);
    let config = read(&home.path().join(".config/longhaul/config.toml"));
    assert!(
        !config.contains(login) && !config.contains("team-"),
        "{config}"
    );
    assert!(config.contains(r#"OWN = "${OWN}""#), "{config}");
    let wrapped = read(&path);
    let passed = r#""env": {"WEB_LOGIN":"admin:Xy$9kLm","WEB_ORG":"team-${ORG}"}"#;
    assert!(wrapped.contains(passed), "{wrapped}");
    home.ok(&["unwrap", "claude-code", "--yes"]);
    assert_eq!(read(&path), text);
    fs::remove_file(home.path().join(".config/longhaul/config.toml")).unwrap();
    let text = r#"{"mcpServers": {"lab": {"command": "npx", "env": {"MODE": "quiet-mode", "PIN": "77"}}}}"#;
    let path = home.write(".claude.json", text);
    home.ok(&["wrap", "claude-code", "--yes"]);
    let config = read(&home.path().join(".config/longhaul/config.toml"));
    assert!(
        !config.contains("quiet-mode") && !config.contains("77"),
        "{config}"
    );
    let wrapped = read(&path);
    assert!(wrapped.contains(r#""LAB_MODE":"quiet-mode""#), "{wrapped}");
    home.ok(&["unwrap", "claude-code", "--yes"]);
    assert_eq!(read(&path), text);
    // A value that the configuration has already is the same one.
    let known = "[servers.lab]\ncommand = \"npx\"\nenv = { MODE = \"quiet-mode\", PIN = \"77\" }\n";
    home.write(".config/longhaul/config.toml", known);
    home.ok(&["wrap", "claude-code", "--yes"]);
    assert!(read(&path).contains(r#""proxy","lab""#), "{}", read(&path));
    assert_eq!(
        read(&home.path().join(".config/longhaul/config.toml")),
        known
    );
}

#[test]
fn nothing_changes_without_consent() {
    let home = Home::new();
    let (host, file, text) = HOSTS[2];
    let path = home.write(file, text);
    let ran = home.run(&["wrap", host]);
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    assert!(!ran.err.contains("sk-0123"), "{ran:#?}");
    assert!(
        ran.err.contains("- url = ") && ran.err.contains("+ command = "),
        "{ran:#?}"
    );
    assert_eq!(read(&path), text);
    assert!(!home.path().join(".config/longhaul/config.toml").exists());
    for bad in [
        &["wrap", "emacs"][..],
        &["wrap", "zed"],
        &["wrap", host, "other", "--yes"],
    ] {
        assert_eq!(home.run(bad).code, Some(2), "{bad:?}");
    }
    write_atomically(&path, b"[mcp_servers.lab\n").unwrap();
    assert!(
        home.run(&["wrap", host, "--yes"])
            .err
            .contains("not valid TOML")
    );
}
