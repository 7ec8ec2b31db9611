//! Secrets and other origins: what is attacked here is that a token, a header, a session id or a key in a URL is sent to
//! nobody else and written nowhere else. The real binary against servers and proxies written by hand.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::support::kept::Kept;
use crate::support::pty::{self, TestEnv};
use crate::support::{
    program::{Ran, Running, finish, program, run},
    proxy::FaultProxy,
    server,
};
use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, Method, StatusCode},
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt as _, stream};
use longhaul::store::{Paths, write_atomically};
use rustix::process::Signal;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::{Value, json};

/// A server of the stateful era that numbers its events.
#[derive(Clone, Default)]
struct Plain {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Where to and with which status every request of a kind is sent instead of being served, and how often still.
    elsewhere: Mutex<BTreeMap<&'static str, (u16, String, usize)>>,
    /// The headers of the requests.
    heads: Mutex<Vec<HeaderMap>>,
    calls: AtomicUsize,
    /// The newest call.
    caller: Mutex<Value>,
}

/// What the server calls its session.
const SESSION: &str = "canary-session-9f31";

impl Plain {
    fn serve() -> (Self, SocketAddr) {
        let plain = Self::default();
        let router = Router::new().fallback(serve).with_state(plain.clone());
        (plain, server::serve(router))
    }

    /// Requests of this kind (a JSON-RPC method, or GET) go elsewhere, so many times.
    fn send_elsewhere(&self, kind: &'static str, status: u16, location: &str, times: usize) {
        let mut elsewhere = self.shared.elsewhere.lock().unwrap();
        elsewhere.insert(kind, (status, location.to_owned(), times));
    }

    fn calls(&self) -> usize {
        self.shared.calls.load(Ordering::SeqCst)
    }
}

async fn serve(
    State(plain): State<Plain>,
    method: Method,
    headers: HeaderMap,
    body: String,
) -> Response {
    let shared = &plain.shared;
    shared.heads.lock().unwrap().push(headers);
    let message: Value = serde_json::from_str(&body).unwrap_or_default();
    let kind = message["method"].as_str().unwrap_or(method.as_str());
    let elsewhere =
        shared
            .elsewhere
            .lock()
            .unwrap()
            .get_mut(kind)
            .and_then(|(status, location, times)| {
                *times = times.checked_sub(1)?;
                Some((
                    StatusCode::from_u16(*status).unwrap(),
                    [("location", location.clone())],
                ))
            });
    if let Some(elsewhere) = elsewhere {
        return elsewhere.into_response();
    }
    let id = &message["id"];
    let done = json!({"content": [{"type": "text", "text": "done"}]});
    let event = |number: u32, message: Value| format!("id: {number}\ndata: {message}\n\n");
    let result = |result: &Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    let json = |value: Value| {
        let headers = [
            ("content-type", "application/json"),
            ("mcp-session-id", SESSION),
        ];
        (headers, value.to_string()).into_response()
    };
    let stream = |events: Vec<String>, is_open: bool| {
        let rest = stream::once(async move {
            if is_open {
                std::future::pending::<()>().await;
            }
            String::new()
        });
        let body = Body::from_stream(stream::iter(events).chain(rest).map(Ok::<_, Infallible>));
        ([("content-type", "text/event-stream")], body).into_response()
    };
    match kind {
        "server/discover" => StatusCode::BAD_REQUEST.into_response(),
        "initialize" => json(result(&json!({"protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}}, "serverInfo": {"name": "plain", "version": "1"}}))),
        "ping" => json(result(&json!({}))),
        "tools/list" => {
            let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
            json(result(
                &json!({"tools": [tool("quick"), tool("cut"), tool("stuck")]}),
            ))
        }
        "tools/call" => {
            shared.calls.fetch_add(1, Ordering::SeqCst);
            *shared.caller.lock().unwrap() = id.clone();
            let step = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params":
                {"progressToken": message["params"]["_meta"]["progressToken"], "progress": 1}});
            match message["params"]["name"].as_str() {
                Some("quick") => json(result(&done)),
                name => stream(vec![event(1, step)], name == Some("stuck")),
            }
        }
        "GET" => {
            let caller = shared.caller.lock().unwrap().clone();
            let answer = json!({"jsonrpc": "2.0", "id": caller, "result": done});
            stream(vec![event(2, answer)], false)
        }
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

fn said(ran: &Ran) -> String {
    format!("{}{}", ran.out, ran.err)
}

#[test]
fn sends_secrets_over_plain_http_only_to_localhost() {
    let (plain, addr) = Plain::serve();
    let proxy = FaultProxy::start(addr);
    let port = proxy.addr().port();
    // Not one of the names of this machine, though it leads here.
    let far = format!("http://0.0.0.0:{port}/mcp");
    let near = format!("http://localhost:{port}/mcp");
    let header = ["-H", "X-Api-Key: canary"];
    let bearer = ["--bearer-env", "TOKEN"];
    let dir = tempfile::tempdir().unwrap();
    let run = |words: &[&[&str]]| {
        let mut command = program(dir.path(), &words.concat());
        finish(command.env("TOKEN", "canary"))
    };
    let refused = |ran: Ran| {
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:#?}");
        assert!(ran.err.contains("--insecure-http"), "{ran:#?}");
        assert!(ran.err.contains("refusing to send"), "{ran:#?}");
        assert!(!ran.err.contains("canary"), "{ran:#?}");
    };
    for secret in [&header, &bearer] {
        refused(run(&[&["-s", &far], secret, &["call", "quick"]]));
        refused(run(&[&["-s", &far], secret, &["tools"]]));
    }
    assert_eq!(proxy.connections(), 0);

    let asked_for = run(&[
        &["-s", &far, "--insecure-http"],
        &bearer,
        &["call", "quick"],
    ]);
    assert_eq!(asked_for.code, Some(0), "{asked_for:#?}");
    let heads = plain.shared.heads.lock().unwrap().clone();
    assert!(
        heads
            .iter()
            .all(|head| head["authorization"] == "Bearer canary")
    );

    // Known by now, and refused all the same: by its URL, by its name, as the only one, and for a task of it.
    let connections = proxy.connections();
    let name = format!("0.0.0.0:{port}");
    for server in [&["-s", &far][..], &["-s", &name], &[]] {
        refused(run(&[server, &header, &["call", "quick"]]));
    }
    let list = run(&[&["ls", "--all", "--json"]]).document();
    let id = list[0]["id"].as_str().unwrap().to_owned();
    refused(run(&[&header, &["again", &id]]));
    assert_eq!(proxy.connections(), connections);

    assert_eq!(
        run(&[&["-s", &far, "call", "quick"]]).code,
        Some(0),
        "without a secret"
    );
    let ran = run(&[&["-s", &near], &header, &["call", "quick"]]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
}

#[test]
fn sends_a_variable_only_to_its_server_and_names_missing_ones() {
    let (plain, addr) = Plain::serve();
    let (other, elsewhere) = Plain::serve();
    let env = TestEnv::new();
    let configure = |url: &str, more: &str| {
        let text = format!(
            "[servers.lab]\nurl = {url:?}\nheaders = {{ Authorization = \"Bearer ${{LAB_TOKEN}}\" }}\n{more}"
        );
        write_atomically(&env.path().join("config.toml"), text.as_bytes()).unwrap();
    };
    let near = format!("http://{addr}/mcp");
    configure(&near, "");
    let ran = |words: &[&str], token: Option<&str>| {
        let mut command = program(env.path(), words);
        if let Some(token) = token {
            command.env("LAB_TOKEN", token);
        }
        finish(&mut command)
    };
    let call = ["-s", "lab", "call", "quick"];
    for token in [None, Some(""), Some("  ")] {
        let missing = ran(&call, token);
        assert_eq!(missing.code, Some(3), "{missing:#?}");
        assert!(missing.err.contains("LAB_TOKEN"), "{missing:#?}");
    }
    assert!(
        plain.shared.heads.lock().unwrap().is_empty(),
        "nothing was sent"
    );
    let ran_well = ran(&call, Some("canary-of-the-lab\n"));
    assert_eq!(ran_well.code, Some(0), "{ran_well:#?}");
    let heads = std::mem::take(&mut *plain.shared.heads.lock().unwrap());
    let is_right = |head: &HeaderMap| head["authorization"] == "Bearer canary-of-the-lab";
    assert!(!heads.is_empty() && heads.iter().all(is_right));

    // The command line wins over it, and a server of another place gets nothing of it.
    let by_hand = ran(
        &[&["-H", "authorization: Bearer mine"], &call[..]].concat(),
        Some("canary-of-the-lab"),
    );
    assert_eq!(by_hand.code, Some(0), "{by_hand:#?}");
    let heads = std::mem::take(&mut *plain.shared.heads.lock().unwrap());
    assert!(
        heads
            .iter()
            .all(|head| head["authorization"] == "Bearer mine")
    );
    let url = format!("http://{elsewhere}/mcp");
    let there = ran(&["-s", &url, "call", "quick"], Some("canary-of-the-lab"));
    assert_eq!(there.code, Some(0), "{there:#?}");
    let heads = other.shared.heads.lock().unwrap().clone();
    assert!(heads.iter().all(|head| head.get("authorization").is_none()));

    // Plain HTTP to another machine; also from the screen, which resumes tasks by itself.
    let far = format!("http://0.0.0.0:{}/mcp", addr.port());
    configure(&far, "");
    let refused = ran(&call, Some("canary-of-the-lab"));
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.err.contains("--insecure-http"), "{refused:#?}");
    let asked_for = ran(
        &[&["--insecure-http"], &call[..]].concat(),
        Some("canary-of-the-lab"),
    );
    assert_eq!(asked_for.code, Some(0), "{asked_for:#?}");

    configure(&near, "imported_from = \".mcp.json\"\n");
    plain.shared.heads.lock().unwrap().clear();
    let withheld = ran(&call, Some("canary-of-the-lab"));
    assert_eq!(withheld.code, Some(3), "{withheld:#?}");
    assert!(
        withheld.err.contains("longhaul servers approve lab"),
        "{withheld:#?}"
    );
    assert!(plain.shared.heads.lock().unwrap().is_empty());
    // Written nowhere.
    for entry in fs::read_dir(env.path().join("sessions")).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let is_in = bytes.windows(17).any(|part| part == b"canary-of-the-lab");
        assert!(!is_in);
    }
}

#[test]
fn an_open_session_applies_changed_config_headers() {
    let (plain, addr) = Plain::serve();
    let env = TestEnv::new();
    let configure = |headers: &str| {
        let text = format!("[servers.lab]\nurl = \"http://{addr}/mcp\"\n{headers}");
        write_atomically(&env.path().join("config.toml"), text.as_bytes()).unwrap();
    };
    configure("headers = { X-Key = \"${LAB_KEY}\" }\n");
    let call = ["-s", "lab", "-H", "X-By-Hand: given", "--json", "call"];
    let mut driver = program(env.path(), &[&call[..], &["stuck"]].concat());
    let mut driver = Running::start(driver.env("LAB_KEY", "old"));
    driver.prints(|event| event["event"] == "progress");
    let key = |environment: Option<&str>| {
        let mut beside = program(env.path(), &["-s", "lab", "call", "quick"]);
        beside.envs(environment.map(|key| ("LAB_KEY", key)));
        let ran = finish(&mut beside);
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        let heads = plain.shared.heads.lock().unwrap();
        let newest = heads.last().unwrap();
        assert_eq!(newest["x-by-hand"], "given");
        newest
            .get("x-key")
            .map(|key| key.to_str().unwrap().to_owned())
    };
    assert_eq!(key(None).as_deref(), Some("old"));
    // The requesting client has another key for it.
    assert_eq!(key(Some("theirs")).as_deref(), Some("theirs"));
    configure("headers = { X-Key = \"new-${LAB_KEY}\" }\n");
    // The newest value that a client had stays.
    assert_eq!(key(None).as_deref(), Some("new-theirs"));
    configure("");
    assert_eq!(key(None), None);
    driver.signal(rustix::process::Signal::INT);
    driver.end();
}

#[test]
fn an_open_screen_applies_approval_given_elsewhere() {
    let (plain, addr) = Plain::serve();
    let env = TestEnv::new();
    let config = env.path().join("config.toml");
    let text = format!(
        "[servers.lab]\nurl = \"http://{addr}/mcp\"\nheaders = {{ X-Key = \"${{LAB_TOKEN}}\" }}\nimported_from = \"x\"\n"
    );
    let variables = [("LAB_TOKEN", "canary")];
    let is_silent = || plain.shared.heads.lock().unwrap().is_empty();

    write_atomically(&config, text.as_bytes()).unwrap();
    let mut screen = env.open_with(&variables, pty::program(), &[], (120, 36));
    screen.wait_for("lab needs approval");
    screen.press("n");
    // The sentence wraps after its first word.
    screen.wait_for("`longhaul servers approve lab`.");
    screen.wait_for("press L to fix this");
    screen.press("\x1b");
    screen.wait_for("! needs you");
    screen.press("L");
    screen.wait_for("Send these values to lab?");
    screen.wait_for(&format!(
        "LAB_TOKEN would be sent to http://{addr} in the X-Key header"
    ));
    screen.press("\x1b");
    screen.wait_until("it is closed", |screen| {
        !screen.contents().contains("Send this")
    });
    assert!(is_silent());
    // What was shown is agreed to, and nothing else.
    screen.press("L");
    screen.wait_for("Send these values to lab?");
    let other = text.replace("X-Key", "X-Other");
    write_atomically(&config, other.as_bytes()).unwrap();
    // Keys typed right after a dialog opens are ignored.
    let mut agree = |to: &str, until: &str| {
        screen.wait_for(to);
        while screen.text().contains(to) {
            screen.press("y");
            screen.watch_for(Duration::from_millis(50));
        }
        screen.wait_for(until);
    };
    agree("in the X-Key header", "in the X-Other header");
    assert!(is_silent());
    agree(
        "in the X-Other header",
        "lab may now receive its variables; longhaul asks again",
    );
    screen.press("n");
    screen.wait_for("quick");
    let heads = std::mem::take(&mut *plain.shared.heads.lock().unwrap());
    assert!(heads.iter().all(|head| head["x-other"] == "canary"));
    screen.press("\x1b");
    screen.wait_for("! needs you");
    screen.press("q");
    screen.end();

    plain.shared.heads.lock().unwrap().clear();
    write_atomically(&config, text.as_bytes()).unwrap();
    let named = ["--session", "other"];
    let mut screen = env.open_with(&variables, pty::program(), &named, (120, 36));
    screen.wait_for("lab needs approval");
    screen.press("n");
    // The command wraps before its option.
    screen.wait_for("`longhaul servers approve lab");
    screen.wait_for("--session other`.");
    screen.wait_for("press L to fix this");
    assert!(is_silent());
    let agreed = finish(&mut program(
        env.path(),
        &["servers", "approve", "lab", "--yes"],
    ));
    assert_eq!(agreed.code, Some(0), "{agreed:#?}");
    assert!(
        agreed.err.contains("set LAB_TOKEN in the shell"),
        "{agreed:#?}"
    );
    screen.wait_for("quick");
    screen.press("\x1b");
    screen.wait_for("! needs you");
    screen.press("q");
    screen.end();
}

#[test]
fn a_task_keeps_its_place_while_the_driver_lacks_a_variable() {
    let (plain, addr) = Plain::serve();
    let env = TestEnv::new();
    let text = format!(
        "[servers.lab]\nurl = \"http://{addr}/mcp\"\nheaders = {{ X-Key = \"${{LAB_TOKEN}}\" }}"
    );
    write_atomically(&env.path().join("config.toml"), text.as_bytes()).unwrap();
    let call = ["-s", "lab", "call", "stuck", "--json"];
    // The answer would come on any stream.
    plain.send_elsewhere("GET", 409, "", usize::MAX);
    let mut command = program(env.path(), &call);
    let mut first = Running::start(command.env("LAB_TOKEN", "canary"));
    let started = first.prints(|event| event["event"] == "progress");
    first.signal(Signal::KILL);
    let _ = first.end();
    let id = started["id"].as_str().unwrap();
    let mut screen = env.open(&["attach", id], (120, 36));
    screen.wait_for_line(&["waiting", "needs $LAB_TOKEN"]);
    screen.press("3");
    screen.wait_for("this server needs $LAB_TOKEN");
    screen.wait_for("3 tools, resumable streams");
    // Nothing left this one: whatever the server read, the first one sent.
    let knows = |head: &HeaderMap| head.get("x-key").is_some_and(|key| key == "canary");
    assert!(plain.shared.heads.lock().unwrap().iter().all(knows));
    // A client that has it joins: the task resumes.
    plain.send_elsewhere("GET", 409, "", 0);
    let mut command = program(env.path(), &["-s", "lab", "resume", id]);
    let resumed = finish(command.env("LAB_TOKEN", "canary"));
    assert_eq!(resumed.code, Some(0), "{resumed:#?}");
    screen.press("1");
    screen.wait_for("quit: nothing is running");
    screen.press("q");
    screen.end();
}

#[test]
fn no_redirect_leaves_the_origin() {
    let (_, other) = Plain::serve();
    let watched = FaultProxy::start(other);
    let there = format!("http://{}/mcp?stolen", watched.addr());
    for status in [301, 302, 303, 307, 308] {
        let (plain, addr) = Plain::serve();
        let dir = tempfile::tempdir().unwrap();
        let url = format!("http://{addr}/mcp");
        let call = |tool: &str| {
            let secret = ["-s", &url, "-H", "Authorization: Bearer canary"];
            run(dir.path(), &[&secret[..], &["call", tool]].concat())
        };
        plain.send_elsewhere("initialize", status, &there, 1);
        let ran = call("quick");
        assert_eq!(ran.code, Some(2), "{status}: {ran:#?}");
        for words in ["can't be reached at", "another origin", "not followed"] {
            assert!(ran.err.contains(words), "{status}: {ran:#?}");
        }
        plain.send_elsewhere("tools/call", status, &there, 1);
        let ran = call("quick");
        assert_eq!(ran.code, Some(2), "{status}: {ran:#?}");
        assert!(ran.err.contains("another origin"), "{status}: {ran:#?}");
        assert_eq!(plain.calls(), 0);
        // A resume that is led astray, as by the door of a hotel's network, is asked again.
        plain.send_elsewhere("GET", status, &there, 2);
        let ran = call("cut");
        assert_eq!(
            (ran.code, plain.calls()),
            (Some(0), 1),
            "{status}: {ran:#?}"
        );
    }
    assert_eq!(watched.connections(), 0);
}

/// A proxy between us and the net: takes `CONNECT` and whole URLs, and leads every name to the same server.
struct Proxy {
    addr: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn before(plain: SocketAddr, tls: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&heads);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (mut client, log) = (client.unwrap(), Arc::clone(&log));
                thread::spawn(move || {
                    let head = read_head(&mut client);
                    log.lock()
                        .unwrap()
                        .push(String::from_utf8_lossy(&head).into_owned());
                    let mut server = if head.starts_with(b"CONNECT ") {
                        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                        TcpStream::connect(tls).unwrap()
                    } else {
                        let mut server = TcpStream::connect(plain).unwrap();
                        server.write_all(&head).unwrap();
                        server
                    };
                    let (mut up, mut down) =
                        (client.try_clone().unwrap(), server.try_clone().unwrap());
                    // A hang-up on one side closes both directions.
                    thread::spawn(move || drop(std::io::copy(&mut up, &mut down)));
                    let _ = std::io::copy(&mut server, &mut client);
                    let _ = client.shutdown(std::net::Shutdown::Both);
                });
            }
        });
        Self { addr, heads }
    }

    fn heads(&self) -> Vec<String> {
        let mut heads = std::mem::take(&mut *self.heads.lock().unwrap());
        // A connection that was not needed in the end carried nothing.
        heads.retain(|head| !head.is_empty());
        heads
    }
}

fn read_head(from: &mut impl std::io::Read) -> Vec<u8> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && from.read_exact(&mut byte).is_ok() {
        head.extend(byte);
    }
    head
}

const LAB: &[u8] = include_bytes!("support/lab-test.pem");

/// TLS for the name `lab.test` before a plain server, with a count of what it could read.
fn tls_before(plain: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    longhaul::transport::ensure_provider();
    let certificate = CertificateDer::from_pem_slice(LAB).unwrap();
    let key = PrivateKeyDer::from_pem_slice(LAB).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let read = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&read);
    thread::spawn(move || {
        for client in listener.incoming() {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut client = rustls::StreamOwned::new(connection, client.unwrap());
            let count = Arc::clone(&count);
            thread::spawn(move || {
                let head = read_head(&mut client);
                count.fetch_add(head.len(), Ordering::SeqCst);
                if head.is_empty() {
                    return;
                }
                let text = String::from_utf8_lossy(&head).to_lowercase();
                let length = text
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: "));
                let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
                client.read_exact(&mut body).unwrap();
                let mut server = TcpStream::connect(plain).unwrap();
                let last = head.len() - 2;
                for part in [&head[..last], b"connection: close\r\n\r\n", &body] {
                    server.write_all(part).unwrap();
                }
                let _ = std::io::copy(&mut server, &mut client);
                client.conn.send_close_notify();
                let _ = client.flush();
            });
        }
    });
    (addr, read)
}

#[test]
fn uses_env_proxies_except_locally_and_leaks_no_secret() {
    let (plain, addr) = Plain::serve();
    let (tls, _) = tls_before(addr);
    let proxy = Proxy::before(addr, tls);
    let through = format!("http://proxy-user:canary-proxy@{}", proxy.addr);
    let dir = tempfile::tempdir().unwrap();
    let trusted = dir.path().join("trusted.pem");
    write_atomically(&trusted, LAB).unwrap();
    let call = |url: &str, variables: &[(&str, &str)], secret: &[&str]| {
        let state = tempfile::tempdir().unwrap();
        let arguments = [&["-s", url], secret, &["-vvv", "call", "quick"]].concat();
        let mut command = program(state.path(), &arguments);
        command
            .env("SSL_CERT_FILE", &trusted)
            .envs(variables.iter().copied());
        let ran = finish(&mut command);
        assert_nowhere(state.path(), &["canary-proxy"], &[]);
        assert!(!said(&ran).contains("canary"), "{ran:#?}");
        ran
    };
    let secret = ["-H", "Authorization: Bearer canary-header"];
    for variable in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
        let ran = call("http://lab.test/mcp", &[(variable, &through)], &[]);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (Some(0), "done\n"),
            "{variable}: {ran:#?}"
        );
        let heads = proxy.heads();
        let is_whole = |head: &String| head.contains(" http://lab.test/mcp HTTP/1.1\r\n");
        assert!(heads.len() >= 3 && heads.iter().all(is_whole), "{heads:#?}");
        assert!(
            heads[0].contains("\r\nproxy-authorization: Basic "),
            "{heads:#?}"
        );
    }
    for variable in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
        let ran = call("https://lab.test/mcp", &[(variable, &through)], &secret);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (Some(0), "done\n"),
            "{variable}: {ran:#?}"
        );
        let heads = proxy.heads();
        let is_tunnel = |head: &String| head.starts_with("CONNECT lab.test:443 HTTP/1.1\r\n");
        assert!(
            heads.len() >= 3 && heads.iter().all(is_tunnel),
            "{heads:#?}"
        );
        assert!(
            !heads.concat().contains("canary-header"),
            "in the tunnel only"
        );
    }
    // The proxy's own password is for the proxy.
    let heads = plain.shared.heads.lock().unwrap().clone();
    let in_tunnel = heads
        .iter()
        .filter(|head| head.contains_key("authorization"));
    assert!(in_tunnel.clone().count() >= 9);
    assert!(
        in_tunnel
            .clone()
            .all(|head| !head.contains_key("proxy-authorization"))
    );

    let both = [("HTTP_PROXY", through.as_str()), ("HTTPS_PROXY", &through)];
    let here = format!("http://{addr}/mcp");
    assert_eq!(
        call(&here, &both, &secret).code,
        Some(0),
        "never for this machine"
    );
    let excepted = [&both[..], &[("NO_PROXY", "other.test,0.0.0.0")]].concat();
    let far = format!("http://0.0.0.0:{}/mcp", addr.port());
    assert_eq!(call(&far, &excepted, &[]).code, Some(0));
    assert_eq!(proxy.heads(), [""; 0]);
    assert_eq!(call(&far, &both, &[]).code, Some(0));
    assert_ne!(proxy.heads(), [""; 0], "it would have been asked");
}

#[test]
fn sends_nothing_to_a_server_with_an_untrusted_certificate() {
    let (plain, addr) = Plain::serve();
    let (tls, read) = tls_before(addr);
    let proxy = Proxy::before(addr, tls);
    let through = format!("http://{}", proxy.addr);
    let dir = tempfile::tempdir().unwrap();
    let trusted = dir.path().join("trusted.pem");
    write_atomically(&trusted, LAB).unwrap();
    let nobody = dir.path().join("nobody.pem");
    write_atomically(&nobody, include_bytes!("support/self-signed.pem")).unwrap();
    for (url, roots, words) in [
        ("https://lab.test/mcp", &nobody, "does not trust the issuer"),
        (
            "https://evil.test/mcp",
            &trusted,
            "its certificate is not valid for evil.test",
        ),
    ] {
        let state = tempfile::tempdir().unwrap();
        let secret = "Authorization: Bearer canary";
        let mut command = program(state.path(), &["-s", url, "-H", secret, "call", "quick"]);
        command
            .env("SSL_CERT_FILE", roots)
            .env("HTTPS_PROXY", &through);
        let ran = finish(&mut command);
        assert_eq!(ran.code, Some(4), "{url}: {ran:#?}");
        assert!(ran.err.contains(words), "{url}: {ran:#?}");
        assert_eq!(
            proxy.heads().len(),
            1,
            "{url}: it is not tried again and again"
        );
    }
    assert_eq!((read.load(Ordering::SeqCst), plain.calls()), (0, 0));
}

/// No file below `dir` holds any of `secrets`, and only a session file one of `kept`.
fn assert_nowhere(dir: &Path, secrets: &[&str], kept: &[&str]) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_nowhere(&path, secrets, kept);
            continue;
        }
        // Sockets cannot be read.
        let Ok(bytes) = fs::read(&path) else { continue };
        let holds = |secret: &&&str| memchr::memmem::find(&bytes, secret.as_bytes()).is_some();
        assert_eq!(secrets.iter().find(holds), None, "{}", path.display());
        let name = path.file_name().unwrap().to_string_lossy();
        if !name.contains(".db") {
            assert_eq!(kept.iter().find(holds), None, "{}", path.display());
        }
    }
}

/// No process but those given has one of `secrets` among its arguments.
#[cfg(feature = "demo")]
fn assert_in_no_arguments(secrets: &[&str], but: &[u32]) {
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_string_lossy().parse::<u32>();
        let Some(pid) = pid.ok().filter(|pid| !but.contains(pid)) else {
            continue;
        };
        // It may have ended meanwhile.
        let Ok(words) = fs::read(entry.path().join("cmdline")) else {
            continue;
        };
        for secret in secrets {
            assert!(
                memchr::memmem::find(&words, secret.as_bytes()).is_none(),
                "{pid}"
            );
        }
    }
}

#[test]
fn a_canary_in_every_kind_of_secret_is_found_nowhere() {
    const HEADER: &str = "canary-header-51c7";
    const BEARER: &str = "canary-bearer-77d0";
    const QUERY: &str = "canary-query-2b90";
    const PASSWORD: &str = "canary-password-c13e";
    const NEVER: [&str; 3] = [HEADER, BEARER, PASSWORD];
    // What a resume needs is in the session file, which nobody else may read, and nowhere else.
    const KEPT: [&str; 2] = [SESSION, QUERY];
    let (_, addr) = Plain::serve();
    let proxy = FaultProxy::start(addr);
    let url = format!("http://{}/mcp?key={QUERY}", proxy.addr());
    let header = format!("X-Api-Key: {HEADER}");
    let env = TestEnv::new();
    let secrets = ["-H", &header, "--bearer-env", "TOKEN", "-vvv", "--trace"];
    let command = |words: &[&str]| {
        let mut command = program(env.path(), &[&secrets[..], words].concat());
        command.env("TOKEN", BEARER);
        command
    };
    let mut heard = String::new();
    let mut hear = |ran: &Ran| heard.push_str(&said(ran));
    let ask = |words: &[&str]| finish(&mut command(words));

    hear(&ask(&["-s", &url, "tools"]));
    hear(&ask(&["-s", &url, "call", "quick"]));
    let cut = ask(&["call", "cut", "--json"]);
    assert_eq!(cut.code, Some(0), "{cut:#?}");
    hear(&cut);
    let mut stuck = Running::start(&mut command(&["call", "stuck", "--json"]));
    let started = stuck.prints(|event| event["event"] == "started");
    stuck.prints(|event| event["event"] == "progress");
    let id = started["id"].as_str().unwrap();
    stuck.signal(Signal::KILL);
    hear(&stuck.end());
    for words in [
        &["show", id][..],
        &["show", id, "--json"],
        &["ls", "--all", "--json"],
        &["logs", id, "--json"],
        &["paths"],
        &["-s", "unheard-of", "call", "quick"],
        &[
            "-s",
            &format!("http://ann:{PASSWORD}@lab.test/mcp"),
            "tools",
        ],
        &["-s", &format!("ftp://lab.test/?{PASSWORD}"), "tools"],
    ] {
        hear(&ask(words));
    }
    proxy.cut();
    let other = format!("{url}&two");
    hear(&ask(&["-s", &other, "tools"]));
    hear(&ask(&["-s", &other, "call", "quick"]));
    proxy.heal();

    // Every page of the screen, while the call runs.
    let screen = |variables: &[(&str, &str)], words: &[&str]| {
        let arguments = [&secrets[..], words].concat();
        env.open_with(variables, pty::program(), &arguments, (200, 60))
    };
    let token = ("TOKEN", BEARER);
    let mut tui = screen(&[token], &["attach", id]);
    tui.wait_for("[Now]");
    for _ in 0..6 {
        tui.press("]");
    }
    tui.wait_for("[Now]");
    tui.press("]]]]]");
    tui.wait_for("[Resume]");
    tui.press("3");
    tui.wait_for_line(&["?…"]);
    tui.press("4");
    tui.press("q\u{3}\u{3}");
    tui.end();
    let mut painted = tui.raw().to_vec();
    #[cfg(debug_assertions)]
    for thread in ["screen", "network", "journal"] {
        let mut tui = screen(&[token, ("LONGHAUL_PANIC_IN", thread)], &[]);
        assert_eq!(tui.end().0, 70, "{thread}");
        painted.extend(tui.raw());
    }
    // Its child.
    #[cfg(feature = "demo")]
    {
        let mut tui = screen(&[token], &["demo"]);
        tui.wait_for_line(&["the whole archive", "continues"]);
        assert_in_no_arguments(&NEVER, &[tui.pid().as_raw_nonzero().get().cast_unsigned()]);
        tui.press("q\u{3}\u{3}");
        tui.end();
        painted.extend(tui.raw());
    }

    let painted = String::from_utf8_lossy(&painted);
    for secret in NEVER.iter().chain(&KEPT) {
        assert!(!heard.contains(secret), "{secret} in {heard}");
        assert!(!painted.contains(secret), "{secret} on the terminal");
    }
    let log = longest_log(env.path());
    assert!(
        log > 1_000,
        "there is a log that could hold something: {log}"
    );
    let traced = fs::read_dir(env.path().join("sessions/default.trace")).unwrap();
    assert!(
        traced.count() > 0,
        "there is a record that could hold something"
    );
    assert_nowhere(env.path(), &NEVER, &KEPT);
}

/// The size of the longest log below `dir`.
fn longest_log(dir: &Path) -> u64 {
    let found = Command::new("find")
        .arg(dir)
        .args(["-name", "*.log", "-printf", "%s\n"])
        .output()
        .unwrap();
    let sizes = String::from_utf8(found.stdout).unwrap();
    sizes
        .lines()
        .map(|size| size.parse().unwrap())
        .max()
        .unwrap_or(0)
}

/// The bearer token, the header, the key in the address, the variable of a program, and the MCP session that follow are
/// repeated by a server wherever it can say anything.
const REPEATED: [&str; 4] = [
    "canary-bearer-4f3a2b1c",
    "canary/header\"4d9e=",
    "canary-query-7c6b5a",
    "canary-session-0a1b2c3d",
];

/// How a secret may stand in a JSON text: as serde writes it, with escaped slashes, and with needless escapes.
fn written(secret: &str) -> [String; 3] {
    let quoted = json!(secret).to_string();
    let quoted = quoted.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    let quoted = quoted.unwrap().to_owned();
    let slashed = quoted.replace('/', "\\/");
    let escaped = quoted.replace('c', "\\u0063").replace('=', "\\u003d");
    [quoted, slashed, escaped]
}

/// All of them in all ways, for a JSON text.
fn all_written() -> String {
    REPEATED
        .iter()
        .flat_map(|secret| written(secret))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A server that repeats every secret that it was given. `GET`s with the right cursor alone bring the results.
#[derive(Clone, Default)]
struct EchoServer {
    cursors: Arc<Mutex<Vec<String>>>,
    caller: Arc<Mutex<Value>>,
    /// So long every GET is answered with 409.
    is_held: Arc<AtomicBool>,
}

impl EchoServer {
    /// An id that holds every secret.
    fn id(number: u32) -> String {
        format!("{}:{number}", REPEATED.join("|"))
    }
}

async fn parrot(
    State(parrot): State<EchoServer>,
    method: Method,
    headers: HeaderMap,
    body: String,
) -> Response {
    let message: Value = serde_json::from_str(&body).unwrap_or_default();
    let kind = message["method"].as_str().unwrap_or(method.as_str());
    let (id, said) = (&message["id"], all_written());
    let plain = REPEATED.join(" ");
    let text = |body: String| {
        let head = [
            ("content-type", "application/json"),
            ("mcp-session-id", REPEATED[3]),
        ];
        (head, body).into_response()
    };
    let result = |result: &str| {
        text(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
        ))
    };
    let stream = |events: &[(u32, String)]| {
        let events = events.iter();
        let events =
            events.map(|(id, data)| format!("id: {}\ndata: {data}\n\n", EchoServer::id(*id)));
        let head = [("content-type", "text/event-stream")];
        (head, events.collect::<String>()).into_response()
    };
    match kind {
        "server/discover" => StatusCode::BAD_REQUEST.into_response(),
        "initialize" => result(&format!(
            r#"{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}},"logging":{{}}}},"serverInfo":{{"name":"parrot {said}","version":"1"}}}}"#
        )),
        "tools/list" => {
            let tool = |name: &str| {
                format!(
                    r#"{{"name":"{name}","description":"{said}","inputSchema":{{"type":"object","properties":{{"a":{{"type":"string","description":"{said}"}}}}}}}}"#
                )
            };
            let tools = ["cut", "refuse", "lead", "fail"].map(tool);
            result(&format!(r#"{{"tools":[{}]}}"#, tools.join(",")))
        }
        "tools/call" => match message["params"]["name"].as_str().unwrap() {
            "refuse" => (
                StatusCode::FORBIDDEN,
                format!("Incorrect API key provided: {plain}"),
            )
                .into_response(),
            "lead" => {
                let there = format!("/{}?{}", REPEATED[0], REPEATED[2]);
                (StatusCode::FOUND, [("location", there)]).into_response()
            }
            "fail" => text(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-1,"message":"no: {said}","data":"{said}"}}}}"#
            )),
            _ => {
                *parrot.caller.lock().unwrap() = id.clone();
                let token = &message["params"]["_meta"]["progressToken"];
                stream(&[
                    (
                        1,
                        format!(
                            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1,"message":"{said}"}}}}"#
                        ),
                    ),
                    (
                        2,
                        format!(
                            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","logger":"{said}","data":"{said}"}}}}"#
                        ),
                    ),
                    (
                        3,
                        format!(
                            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":{{"deep":["{said}"]}}}}}}"#
                        ),
                    ),
                ])
            }
        },
        "GET" => {
            let Some(cursor) = headers.get("last-event-id") else {
                return StatusCode::METHOD_NOT_ALLOWED.into_response();
            };
            let cursor = String::from_utf8(cursor.as_bytes().to_vec()).unwrap();
            parrot.cursors.lock().unwrap().push(cursor.clone());
            if parrot.is_held.load(Ordering::SeqCst) {
                return (StatusCode::CONFLICT, plain).into_response();
            }
            if cursor != EchoServer::id(3) {
                return (StatusCode::NOT_FOUND, plain).into_response();
            }
            let caller = parrot.caller.lock().unwrap().clone();
            stream(&[(
                4,
                format!(
                    r#"{{"jsonrpc":"2.0","id":{caller},"result":{{"content":[{{"type":"text","text":"done {said}"}}],"structuredContent":{{"said":"{said}"}}}}}}"#
                ),
            )])
        }
        _ if id.is_null() => StatusCode::ACCEPTED.into_response(),
        _ => result("{}"),
    }
}

/// What a program shows of a secret however it is written: none of its parts that nobody else says.
fn assert_silent(text: &str, what: &str) {
    assert!(!text.contains("canary"), "{what}: {text}");
    assert!(!text.contains("\\u0063anary"), "{what}: {text}");
}

#[test]
fn shows_and_saves_no_secret_that_a_server_repeats() {
    let parrot_ = EchoServer::default();
    let addr = server::serve(Router::new().fallback(parrot).with_state(parrot_.clone()));
    let url = format!("http://{addr}/mcp?key={}", REPEATED[2]);
    let env = TestEnv::new();
    let header = format!("X-Api-Key: {}", REPEATED[1]);
    let secrets = ["-H", &header, "--bearer-env", "TOKEN", "-vvv", "--trace"];
    let ask = |words: &[&str]| {
        let mut command = program(env.path(), &[&secrets[..], words].concat());
        let ran = finish(command.env("TOKEN", REPEATED[0]));
        assert_silent(&said(&ran), &words.join(" "));
        ran
    };
    ask(&["-s", &url, "tools"]);
    for (tool, code) in [("refuse", 3), ("lead", 2), ("fail", 1)] {
        let ran = ask(&["-s", &url, "call", tool]);
        assert_eq!(ran.code, Some(code), "{ran:#?}");
        assert!(said(&ran).contains("[redacted:"), "{ran:#?}");
    }
    // The ids are masked here, and right on the wire.
    let cut = ask(&["-s", &url, "call", "cut", "--json"]);
    assert_eq!(cut.code, Some(0), "{cut:#?}");
    let cursors = std::mem::take(&mut *parrot_.cursors.lock().unwrap());
    assert_eq!(cursors.first(), Some(&EchoServer::id(3)));
    let id = cut.events()[0]["id"].as_str().unwrap().to_owned();
    for words in [
        &["show", &id][..],
        &["show", &id, "--json"],
        &["result", &id],
        &["result", &id, "--raw"],
        &["--json", "result", &id],
        &["logs", &id],
        &["logs", &id, "--json"],
        &["ls", "--all", "--json"],
        &["export", &id],
        &["trace"],
        &["servers", "list"],
        &["servers", "test", &url],
        &["doctor", "--server", &url],
    ] {
        ask(words);
    }

    let arguments = [&secrets[..], &["attach", &id]].concat();
    let token = [("TOKEN", REPEATED[0])];
    let mut tui = env.open_with(&token, pty::program(), &arguments, (200, 60));
    tui.wait_for("[Now]");
    for tab in ["[Log]", "[Result]", "[Arguments]", "[Trace]", "[Resume]"] {
        tui.press("]");
        tui.wait_for(tab);
    }
    tui.press("2");
    tui.wait_for_line(&["refuse", "[redacted:"]);
    tui.press("3");
    tui.wait_for_line(&["?…"]);
    tui.press("4");
    tui.press("q\u{3}\u{3}");
    tui.end();
    assert_silent(&String::from_utf8_lossy(tui.raw()), "the screen");

    // Where the address and the MCP session are needed they are kept, and nowhere else.
    assert_nowhere(env.path(), &REPEATED[..2], &REPEATED[2..]);
    let db = Paths::resolve(Some(env.path().to_owned()), "default")
        .unwrap()
        .db();
    let connection = rusqlite::Connection::open(db).unwrap();
    for (table, column) in [("task", "body"), ("result", "json"), ("history", "body")] {
        let mut query = connection
            .prepare(&format!("SELECT {column} FROM {table}"))
            .unwrap();
        let rows = query.query_map([], |row| {
            Ok(String::from_utf8_lossy(row.get_ref(0)?.as_bytes()?).into_owned())
        });
        for row in rows.unwrap() {
            assert_silent(&row.unwrap(), table);
        }
    }
}

#[test]
fn finds_its_place_by_a_masked_id_after_it_was_killed() {
    let parrot_ = EchoServer::default();
    let addr = server::serve(Router::new().fallback(parrot).with_state(parrot_.clone()));
    parrot_.is_held.store(true, Ordering::SeqCst);
    let url = format!("http://{addr}/mcp?key={}", REPEATED[2]);
    let env = TestEnv::new();
    let header = format!("X-Api-Key: {}", REPEATED[1]);
    let command = |words: &[&str]| {
        let secrets = ["-H", &header, "--bearer-env", "TOKEN"];
        let mut command = program(env.path(), &[&secrets[..], words].concat());
        command.env("TOKEN", REPEATED[0]);
        command
    };
    // It stops behind the last event of the first stream, with nothing to resume from but what is on disk.
    let mut first = Running::start(&mut command(&["-s", &url, "call", "cut", "--json"]));
    let started = first.prints(|event| event["event"] == "started");
    first.prints(|event| event["event"] == "log");
    first.signal(Signal::KILL);
    first.end();
    parrot_.cursors.lock().unwrap().clear();
    let id = started["id"].as_str().unwrap();
    // Without the header nothing is sent from the wrong place, and nothing is lost.
    let mut watching = Running::start(&mut program(env.path(), &["watch", id]));
    watching.says("[redacted:");
    watching.signal(Signal::TERM);
    watching.end();
    assert_eq!(parrot_.cursors.lock().unwrap().len(), 0);
    parrot_.is_held.store(false, Ordering::SeqCst);
    let ran = finish(&mut command(&["-s", &url, "resume", id]));
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let ran = finish(&mut command(&["-s", &url, "watch", id]));
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert_silent(&said(&ran), "watch");
    for cursor in parrot_.cursors.lock().unwrap().iter() {
        assert!(cursor.starts_with(REPEATED[0]), "{cursor}");
        assert!(!cursor.contains("redacted"), "{cursor}");
    }
}

#[test]
fn each_command_allows_insecure_http_for_itself() {
    let (plain, addr) = Plain::serve();
    let kept = Kept::new();
    // Not one of the names of this machine, though it leads here.
    let far = format!("http://0.0.0.0:{}/mcp", addr.port());
    let other = format!("http://0.0.0.0:{}/other", addr.port());
    let header = "headers = { Authorization = \"Bearer ${LAB_TOKEN}\" }";
    let text = format!(
        "[servers.far]\nurl = {far:?}\n{header}\n[servers.other]\nurl = {other:?}\n{header}\n"
    );
    write_atomically(&kept.path().join("config.toml"), text.as_bytes()).unwrap();
    let ran = |words: &[&str]| finish(kept.command(words).env("LAB_TOKEN", "canary-of-the-lab"));
    let call = ran(&["--insecure-http", "call", "-s", "far", "quick"]);
    assert_eq!(call.code, Some(0), "{call:#?}");
    let list = ran(&["ls", "--all", "--json"]).document();
    let id = list[0]["id"].as_str().unwrap().to_owned();
    let seen = plain.shared.heads.lock().unwrap().len();
    for words in [
        &["again", &id][..],
        &["tools", "-s", "far"],
        &["tools", "-s", "other"],
    ] {
        let refused = ran(words);
        assert_eq!(refused.code, Some(2), "{words:?}: {refused:#?}");
        assert!(refused.err.contains("--insecure-http"), "{refused:#?}");
    }
    // A task of its own keeps the permission, another server has none.
    let again = ran(&["--insecure-http", "again", &id]);
    assert_eq!(again.code, Some(0), "{again:#?}");
    let mut heads = plain.shared.heads.lock().unwrap().split_off(seen);
    heads.retain(|head| head.get("authorization").is_some());
    assert!(!heads.is_empty());
    assert!(ran(&["keeper", "status"]).out.contains("keeper "));
}
