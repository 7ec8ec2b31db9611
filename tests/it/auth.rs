//! Sign-in: the real binary against an MCP server that wants tokens and an authorization server that gives them, both
//! written by hand on 127.0.0.1. The test is the browser: `--browser` writes the page's URL into a file that it reads.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, its helpers too, and after a deadline"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use crate::support::pty::{self, TestEnv};
use crate::support::{
    program::{Ran, Running, finish, program},
    server,
};
use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt as _, stream};
use longhaul::{domain::base64_url, store::write_atomically};
use ring::digest::{SHA256, digest};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Longer than anything here takes on a busy machine; only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(60);

// Secrets, with letters that a form and a URL write in another way.
const SECRET: &str = "canary-secret/z+9=";

fn access(number: usize) -> String {
    format!("canary-access-{number}/x+7=")
}

fn refresh(number: usize) -> String {
    format!("canary-refresh-{number}/q+2=")
}

fn code(number: usize) -> String {
    format!("canary-code-{number}/k+5=")
}

/// Both servers; each request of either is noted.
#[derive(Clone)]
struct World {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<Known>,
    changed: Condvar,
    /// The stream of the tool `long` is cut once this says so, and ends well once it says 2.
    phase: tokio::sync::watch::Sender<u8>,
}

#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what is wrong with a server are facts of their own"
)]
struct Known {
    issuer: String,
    mcp: String,
    // What is wrong with the servers.
    claimed_issuer: Option<String>,
    claimed_resource: Option<String>,
    /// What the metadata of the issuer says instead.
    spoiled: serde_json::Map<String, Value>,
    is_without_resource: bool,
    has_own_state: bool,
    metadata_elsewhere: Option<String>,
    iss: Option<&'static str>,
    is_without_registration: bool,
    /// A client that the issuer has forgotten.
    forgotten: Option<String>,
    /// Neither has metadata, and both are at one origin, as MCP 2025-03-26 allows; this is the status of the places where
    /// they would be.
    undescribed: Option<u16>,
    reads_documents: bool,
    is_refusing_refreshes: bool,
    /// What the token endpoint answers instead of tokens.
    token_answer: Option<(u16, Value)>,
    // What was given out.
    codes: BTreeMap<String, BTreeMap<String, String>>,
    used_codes: BTreeSet<String>,
    /// Scopes by access token, for those that are taken.
    live: BTreeMap<String, String>,
    refresh: Option<String>,
    issued: usize,
    secrets: BTreeSet<String>,
    revoked: Vec<String>,
    // What was asked.
    authorized: Vec<BTreeMap<String, String>>,
    grants: Vec<(BTreeMap<String, String>, Option<String>)>,
    registrations: Vec<Value>,
    /// Kind of request and its token.
    served: Vec<(String, Option<String>)>,
    unauthorized: usize,
    caller: Value,
}

impl Known {
    /// Nothing that was given out is good any more.
    fn revoke_all(&mut self) {
        self.live.clear();
        self.is_refusing_refreshes = true;
    }
}

impl World {
    fn new() -> Self {
        let world = Self {
            inner: Arc::new(Inner {
                state: Mutex::default(),
                changed: Condvar::new(),
                phase: tokio::sync::watch::Sender::new(0),
            }),
        };
        let issuer = Router::new().fallback(issue).with_state(world.clone());
        let mcp = Router::new().fallback(mcp).with_state(world.clone());
        let (issuer, mcp) = (server::serve(issuer), server::serve(mcp));
        world.change(|known| {
            known.issuer = format!("http://{issuer}");
            known.mcp = format!("http://{mcp}");
        });
        world
    }

    fn change<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        let done = change(&mut self.inner.state.lock().unwrap());
        self.inner.changed.notify_all();
        done
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&Known) -> bool) {
        self.wait_within(DEADLINE, what, is_so);
    }

    fn wait_within(&self, deadline: Duration, what: &str, is_so: impl Fn(&Known) -> bool) {
        let state = self.inner.state.lock().unwrap();
        let (state, timeout) = self
            .inner
            .changed
            .wait_timeout_while(state, deadline, |known| !is_so(known))
            .unwrap();
        drop(state);
        assert!(!timeout.timed_out(), "timed out waiting until {what}");
    }

    fn url(&self) -> String {
        self.change(|known| format!("{}/mcp", known.mcp))
    }

    /// New tokens, as the issuer gives them.
    fn tokens(known: &mut Known, scope: &str) -> Value {
        known.issued += 1;
        let number = known.issued;
        let (access, refresh) = (access(number), refresh(number));
        known.live.insert(access.clone(), scope.to_owned());
        known.secrets.extend([access.clone(), refresh.clone()]);
        known.refresh = Some(refresh.clone());
        json!({"access_token": access, "token_type": "bearer", "refresh_token": refresh,
            "expires_in": 3600, "scope": scope})
    }
}

fn pairs(text: &str) -> BTreeMap<String, String> {
    url::form_urlencoded::parse(text.as_bytes())
        .into_owned()
        .collect()
}

fn json_of(value: &Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}

/// The authorization server.
async fn issue(State(world): State<World>, uri: Uri, headers: HeaderMap, body: String) -> Response {
    let query = pairs(uri.query().unwrap_or_default());
    world.change(|known| match uri.path() {
        "/.well-known/oauth-authorization-server" => {
            let issuer = &known.issuer;
            let mut metadata = json!({
                "issuer": known.claimed_issuer.as_ref().unwrap_or(issuer),
                "authorization_endpoint": format!("{issuer}/authorize?tenant=1"),
                "token_endpoint": format!("{issuer}/token"),
                "revocation_endpoint": format!("{issuer}/revoke"),
                "scopes_supported": ["tools", "offline_access"],
                "code_challenge_methods_supported": ["plain", "S256"],
            });
            if known.has_own_state {
                metadata["authorization_endpoint"] = json!(format!("{issuer}/authorize?state=x"));
            }
            if !known.is_without_registration {
                metadata["registration_endpoint"] = json!(format!("{issuer}/register"));
            }
            if known.reads_documents {
                metadata["client_id_metadata_document_supported"] = json!(true);
            }
            if known.iss.is_some() {
                metadata["authorization_response_iss_parameter_supported"] = json!(true);
            }
            for (key, value) in &known.spoiled {
                metadata[key] = value.clone();
            }
            json_of(&metadata)
        }
        "/register" => {
            known
                .registrations
                .push(serde_json::from_str(&body).unwrap());
            let number = known.registrations.len();
            (
                StatusCode::CREATED,
                json!({"client_id": format!("client-{number}")}).to_string(),
            )
                .into_response()
        }
        "/authorize" => {
            known.authorized.push(query.clone());
            let code = code(known.authorized.len());
            known.secrets.insert(code.clone());
            known.codes.insert(code.clone(), query.clone());
            let mut back = url::Url::parse(&query["redirect_uri"]).unwrap();
            back.query_pairs_mut()
                .append_pair("code", &code)
                .append_pair("state", &query["state"]);
            if let Some(iss) = known.iss {
                let iss = if iss.is_empty() { &known.issuer } else { iss };
                back.query_pairs_mut().append_pair("iss", iss);
            }
            (StatusCode::FOUND, [("location", back.to_string())]).into_response()
        }
        "/token" => {
            let form = pairs(&body);
            let authorization = headers.get("authorization");
            let authorization = authorization.map(|it| it.to_str().unwrap().to_owned());
            known.grants.push((form.clone(), authorization));
            if let Some((status, answer)) = &known.token_answer {
                let status = StatusCode::from_u16(*status).unwrap();
                return (status, answer.to_string()).into_response();
            }
            match grant(known, &form) {
                Ok(tokens) => json_of(&tokens),
                Err(error) => (
                    StatusCode::BAD_REQUEST,
                    json!({"error": error, "error_description": format!("no good: {body}")})
                        .to_string(),
                )
                    .into_response(),
            }
        }
        "/revoke" => {
            known.revoked.push(pairs(&body)["token"].clone());
            StatusCode::OK.into_response()
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    })
}

fn grant(known: &mut Known, form: &BTreeMap<String, String>) -> Result<Value, &'static str> {
    if known.forgotten.is_some() && known.forgotten.as_ref() == form.get("client_id") {
        return Err("invalid_client");
    }
    match form["grant_type"].as_str() {
        "authorization_code" => {
            let code = &form["code"];
            let asked = known.codes.get(code).cloned().ok_or("invalid_grant")?;
            if !known.used_codes.insert(code.clone()) {
                return Err("invalid_grant");
            }
            known.secrets.insert(form["code_verifier"].clone());
            let challenge = digest(&SHA256, form["code_verifier"].as_bytes());
            let challenge = base64_url(challenge.as_ref());
            let is_same = |name: &str| asked[name] == form[name];
            if challenge != asked["code_challenge"]
                || !is_same("redirect_uri")
                || !is_same("resource")
            {
                return Err("invalid_request");
            }
            Ok(World::tokens(known, &asked["scope"]))
        }
        "refresh_token" => {
            // One that was spent before is a sign of theft.
            if known.is_refusing_refreshes || known.refresh.as_ref() != form.get("refresh_token") {
                return Err("invalid_grant");
            }
            Ok(World::tokens(known, "tools offline_access admin"))
        }
        _ => Err("unsupported_grant_type"),
    }
}

/// The MCP server.
async fn mcp(
    State(world): State<World>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> Response {
    let resource = "/.well-known/oauth-protected-resource";
    let undescribed = world.change(|known| known.undescribed);
    if let Some(status) = undescribed.filter(|_| uri.path() != "/mcp") {
        let is_metadata = uri.path().starts_with("/.well-known/");
        let is_gone = uri.path() == "/register" && world.change(|it| it.is_without_registration);
        return if is_metadata {
            StatusCode::from_u16(status).unwrap().into_response()
        } else if is_gone {
            StatusCode::NOT_FOUND.into_response()
        } else {
            issue(State(world), uri, headers, body).await
        };
    }
    if uri.path().starts_with(resource) {
        return world.change(|known| {
            if let Some(elsewhere) = &known.metadata_elsewhere {
                return (StatusCode::FOUND, [("location", elsewhere.clone())]).into_response();
            }
            let own = format!("{}/mcp", known.mcp);
            let mut metadata = json!({
                "authorization_servers": [known.issuer],
                "scopes_supported": ["everything"],
            });
            if let Some(value) = known.spoiled.get("scopes_supported") {
                metadata["scopes_supported"] = value.clone();
            }
            if !known.is_without_resource {
                metadata["resource"] = json!(known.claimed_resource.as_ref().unwrap_or(&own));
            }
            json_of(&metadata)
        });
    }
    let message: Value = serde_json::from_str(&body).unwrap_or_default();
    let kind = message["method"]
        .as_str()
        .unwrap_or(method.as_str())
        .to_owned();
    let token = headers.get("authorization").map(|value| {
        let text = value.to_str().unwrap();
        text.strip_prefix("Bearer ").unwrap().to_owned()
    });
    let tool = message["params"]["name"].as_str().unwrap_or_default();
    let refusal = world.change(|known| {
        let scope = token
            .as_ref()
            .and_then(|token| known.live.get(token))
            .cloned();
        let says = |status: StatusCode, challenge: String| {
            let words = format!("no good: {}", token.as_deref().unwrap_or("nothing"));
            Some((status, [("www-authenticate", challenge)], words).into_response())
        };
        let Some(scope) = scope else {
            known.unauthorized += 1;
            let place = format!("{}{resource}/mcp", known.mcp);
            if undescribed.is_some() {
                let challenge = "Bearer scope=\"tools\"".to_owned();
                return says(StatusCode::UNAUTHORIZED, challenge);
            }
            return says(
                StatusCode::UNAUTHORIZED,
                format!("Basic realm=\"x\", Bearer resource_metadata=\"{place}\", scope=\"tools\""),
            );
        };
        if tool == "admin" && !scope.split(' ').any(|scope| scope == "admin") {
            return says(
                StatusCode::FORBIDDEN,
                "Bearer error=\"insufficient_scope\", scope=\"admin\"".to_owned(),
            );
        }
        known.served.push((kind.clone(), token.clone()));
        if kind == "tools/call" {
            known.caller = message["id"].clone();
        }
        None
    });
    if let Some(refusal) = refusal {
        return refusal;
    }
    let done = json!({"content": [{"type": "text", "text": "done"}]});
    let result = |result: &Value| json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    let events = |number: u32, message: &Value| format!("id: {number}\ndata: {message}\n\n");
    let streamed = |first: Option<String>, until: u8, last: Option<String>| {
        let mut phase = world.inner.phase.subscribe();
        let rest = stream::once(async move {
            let _ = phase.wait_for(|phase| *phase >= until).await;
            last.unwrap_or_default()
        });
        let body = stream::iter(first).chain(rest).map(Ok::<_, Infallible>);
        (
            [("content-type", "text/event-stream")],
            Body::from_stream(body),
        )
            .into_response()
    };
    match kind.as_str() {
        "server/discover" => StatusCode::BAD_REQUEST.into_response(),
        "initialize" => (
            [
                ("content-type", "application/json"),
                ("mcp-session-id", "one"),
            ],
            result(
                &json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "guarded", "version": "1"}}),
            )
            .to_string(),
        )
            .into_response(),
        "ping" => json_of(&result(&json!({}))),
        "tools/list" => {
            let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
            json_of(&result(
                &json!({"tools": [tool("quick"), tool("long"), tool("admin")]}),
            ))
        }
        "tools/call" if tool == "long" => {
            let step = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params":
                {"progressToken": message["params"]["_meta"]["progressToken"], "progress": 1}});
            streamed(Some(events(1, &step)), 1, None)
        }
        "tools/call" => json_of(&result(&done)),
        "GET" if headers.contains_key("last-event-id") => {
            let caller = world.change(|known| known.caller.clone());
            let answer = json!({"jsonrpc": "2.0", "id": caller, "result": done});
            streamed(None, 2, Some(events(2, &answer)))
        }
        "GET" => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

/// What a browser gets: the status, where it is sent on, and the page.
fn visit(url: &str) -> (u16, Option<String>, String) {
    let url = url::Url::parse(url).unwrap();
    let addr: SocketAddr = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap())
        .parse()
        .unwrap();
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    write!(
        stream,
        "GET {target} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    let location = text.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("location")
            .then(|| value.trim().to_owned())
    });
    (status, location, text)
}

/// A state directory, and a browser that only writes down what it should open.
struct LoginEnv {
    env: TestEnv,
    browser: String,
    /// Where its desktop's keychain is reached, if it has one.
    bus: Option<String>,
}

impl LoginEnv {
    fn new() -> Self {
        let env = TestEnv::new();
        let script = env.path().join("browser.sh");
        let text = format!(
            "#!/bin/sh\ntr '\\0' ' ' < /proc/$$/cmdline > {0}/seen; env >> {0}/seen\n\
             printf %s \"$1\" > {0}/page.new && mv {0}/page.new {0}/page\n",
            env.path().display()
        );
        write_atomically(&script, text.as_bytes()).unwrap();
        let browser = format!("sh {}", script.display());
        let bus = None;
        Self { env, browser, bus }
    }

    fn path(&self) -> &Path {
        self.env.path()
    }

    fn logins(&self) -> PathBuf {
        self.path().join("logins.json")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = program(self.path(), words);
        command.envs(self.bus.iter().map(|bus| ("DBUS_SESSION_BUS_ADDRESS", bus)));
        command
    }

    fn run(&self, words: &[&str]) -> Ran {
        finish(&mut self.command(words))
    }

    /// Begins a sign-in, and gives the page that the browser is to open.
    fn begin(&self, words: &[&str]) -> (Running, String) {
        self.begin_as(self.command(words))
    }

    fn begin_as(&self, mut command: Command) -> (Running, String) {
        let page = self.path().join("page");
        let _ = fs::remove_file(&page);
        let mut running = Running::start(command.args(["--browser", &self.browser]));
        // The last line before it waits.
        running.says("authorize?");
        let until = std::time::Instant::now() + DEADLINE;
        while !page.exists() {
            assert!(std::time::Instant::now() < until, "no browser was started");
            crate::support::pause();
        }
        let page = fs::read_to_string(page).unwrap();
        (running, page)
    }

    /// Rewrites the login of a server.
    fn change_login(&self, url: &str, change: impl FnOnce(&mut Value)) {
        let text = fs::read_to_string(self.logins()).unwrap();
        let mut book: Value = serde_json::from_str(&text).unwrap();
        change(&mut book["logins"][url]);
        write_atomically(&self.logins(), book.to_string().as_bytes()).unwrap();
    }

    /// A whole sign-in.
    fn sign_in(&self, words: &[&str]) -> Ran {
        let (running, page) = self.begin(words);
        let (status, back, _) = visit(&page);
        assert_eq!(status, 302);
        let (status, _, page) = visit(&back.unwrap());
        assert_eq!(status, 200, "{page}");
        running.end()
    }
}

fn id_of(event: &Value) -> String {
    event["id"].as_str().unwrap().to_owned()
}

#[test]
fn login_adds_a_token_to_each_request_and_logout_revokes_it() {
    let (world, env) = (World::new(), LoginEnv::new());
    let url = world.url();
    let before = env.run(&["-s", &url, "call", "quick"]);
    assert_eq!(before.code, Some(3), "{before:#?}");
    assert!(before.err.contains("longhaul login"), "{before:#?}");

    let ran = env.sign_in(&["login", &url]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let issuer = world.change(|known| known.issuer.clone());
    let host = issuer.strip_prefix("http://").unwrap();
    let shown = ran.err.find(host).unwrap();
    assert!(shown < ran.err.find("authorize?").unwrap(), "{ran:#?}");
    assert!(ran.err.contains("0600"), "{ran:#?}");
    let name = url.strip_prefix("http://").unwrap();
    let name = name.strip_suffix("/mcp").unwrap();
    assert!(
        ran.err.contains(&format!("signed in to {name} through")),
        "{ran:#?}"
    );
    let mode = fs::metadata(env.logins()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    world.change(|known| {
        let asked = &known.authorized[0];
        assert_eq!(asked["tenant"], "1");
        assert_eq!(asked["code_challenge_method"], "S256");
        // What the challenge asks for wins over what the metadata lists.
        assert_eq!(asked["scope"], "tools offline_access");
        assert_eq!(asked["resource"], url);
        assert_eq!(known.grants[0].0["resource"], url);
        assert_eq!(known.grants[0].0["client_id"], "client-1");
        let registration = &known.registrations[0];
        assert_eq!(registration["application_type"], "native");
        assert_eq!(registration["redirect_uris"][0], asked["redirect_uri"]);
        known.unauthorized = 0;
    });

    let ran = env.run(&["-s", &url, "call", "quick"]);
    assert_eq!((ran.code, ran.out.trim()), (Some(0), "done"), "{ran:#?}");
    let list = env.run(&["-s", &url, "tools", "--json"]);
    assert_eq!(list.code, Some(0), "{list:#?}");
    world.change(|known| {
        assert_eq!(known.unauthorized, 0);
        let is_signed = |(_, token): &(String, Option<String>)| token.as_ref() == Some(&access(1));
        assert!(!known.served.is_empty() && known.served.iter().all(is_signed));
    });
    // A header of the user's own wins over it.
    let ran = env.run(&["-s", &url, "-H", "Authorization: Bearer mine", "tools"]);
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    assert!(!ran.err.contains("longhaul login"), "{ran:#?}");

    let ran = env.run(&["logout", &url]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.err.contains("revoked"), "{ran:#?}");
    let revoked = world.change(|known| known.revoked.clone());
    assert_eq!(revoked, [refresh(1), access(1)]);
    let file = fs::read_to_string(env.logins()).unwrap();
    assert!(!file.contains("canary"), "{file}");
    let ran = env.run(&["-s", &url, "tools"]);
    assert_eq!(ran.code, Some(3), "{ran:#?}");
}

/// Alone it has no keychain; `tests/fixtures/keychain.sh cargo test --test it auth::` brings a real one, as `.ci/run` does.
#[test]
fn seals_tokens_when_a_keychain_is_available() {
    let (world, mut env) = (World::new(), LoginEnv::new());
    let url = world.url();
    assert_eq!(env.sign_in(&["login", &url]).code, Some(0));
    let plain = fs::read_to_string(env.logins()).unwrap();
    assert!(plain.contains("canary"), "without a keychain: {plain}");
    env.bus = std::env::var("LONGHAUL_TEST_KEYCHAIN").ok();
    let is_sealed = env.bus.is_some();
    let said = if is_sealed {
        "encrypted with a key"
    } else {
        "mode 0600"
    };
    // A file from before there was a keychain is read.
    let ran = env.run(&["-s", &url, "call", "quick"]);
    assert_eq!((ran.code, ran.out.trim()), (Some(0), "done"), "{ran:#?}");

    let ran = env.sign_in(&["login", &url]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.err.contains(said), "{ran:#?}");
    let kept = fs::read_to_string(env.logins()).unwrap();
    for secret in ["canary", &url] {
        assert_eq!(!kept.contains(secret), is_sealed, "{kept}");
    }
    // Another process reads the keychain again.
    let ran = env.run(&["-s", &url, "call", "quick"]);
    assert_eq!((ran.code, ran.out.trim()), (Some(0), "done"), "{ran:#?}");
    let ran = env.run(&["doctor", "--server", &url]);
    assert!(ran.out.contains(said), "{ran:#?}");
    // Out of reach, it is said, and nothing is lost.
    let bus = env.bus.take();
    let ran = env.run(&["-s", &url, "call", "quick"]);
    assert_eq!(ran.code, Some(if is_sealed { 3 } else { 0 }), "{ran:#?}");
    assert_eq!(ran.err.contains("keychain"), is_sealed, "{ran:#?}");
    assert_eq!(fs::read_to_string(env.logins()).unwrap(), kept);
    env.bus = bus;
    assert_eq!(env.run(&["logout", &url]).code, Some(0));
    assert_eq!(env.run(&["-s", &url, "tools"]).code, Some(3));
}

#[test]
fn prints_the_sign_in_url_without_a_browser() {
    let (world, env) = (World::new(), LoginEnv::new());
    let mut command = env.command(&["login", &world.url(), "--json"]);
    let mut running = Running::start(command.env("DISPLAY", ":0").env("SSH_CONNECTION", "x"));
    running.says("no browser found");
    let mut page = String::new();
    while !page.contains("authorize?") {
        page = running.err_line().unwrap();
    }
    let (_, back, _) = visit(page.trim());
    assert_eq!(visit(&back.unwrap()).0, 200);
    let ran = running.end();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert_eq!(ran.document()["scope"], "tools offline_access");
}

#[test]
fn refreshes_the_token_of_a_running_task_before_expiry() {
    let (world, env) = (World::new(), LoginEnv::new());
    let url = world.url();
    assert_eq!(env.sign_in(&["login", &url]).code, Some(0));
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let soon = u64::try_from(now).unwrap() + 2000;
    env.change_login(&url, |login| login["refresh_at"] = json!(soon));
    world.change(|known| known.unauthorized = 0);
    let mut call = Running::start(&mut env.command(&["-s", &url, "call", "long", "--json"]));
    call.prints(|event| event["event"] == "progress");
    // Sooner than the ping after a minute of silence, which would refresh it too.
    let soon = Duration::from_secs(45);
    world.wait_within(soon, "the token is refreshed", |known| {
        known.grants.len() >= 2
    });
    // The standalone stream is a GET as well, opened with the first token.
    let before = world.change(|known| {
        assert_eq!(known.grants[1].0["grant_type"], "refresh_token");
        assert_eq!(known.grants[1].0["resource"], url);
        known.live.remove(&access(1));
        known.served.len()
    });
    world.inner.phase.send_replace(1);
    world.wait_until("the stream is asked for again", |known| {
        known.served[before..].iter().any(|(kind, _)| kind == "GET")
    });
    world.inner.phase.send_replace(2);
    let ran = call.end();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    world.change(|known| {
        assert_eq!(
            known.unauthorized, 0,
            "refreshed before, not after, a refusal"
        );
        let mut after = known.served[before..].iter();
        let get = after.find(|(kind, _)| kind == "GET").unwrap();
        assert_eq!(get.1.as_ref(), Some(&access(2)));
        assert_eq!(known.grants.len(), 2);
    });
}

#[test]
fn replaces_a_rejected_token_once_and_repeats_the_request() {
    let (world, env) = (World::new(), LoginEnv::new());
    let url = world.url();
    assert_eq!(env.sign_in(&["login", &url]).code, Some(0));
    world.change(|known| known.live.clear());
    let ran = env.run(&["-s", &url, "call", "quick"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    world.change(|known| {
        assert_eq!(known.grants.len(), 2);
        known.revoke_all();
    });
    // The issuer takes nothing of it any more: a person is needed, and nothing is asked for over and over.
    let ran = env.run(&["-s", &url, "call", "quick"]);
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    let ran = env.run(&["-s", &url, "call", "quick"]);
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    assert_eq!(world.change(|known| known.grants.len()), 3);
}

#[test]
fn an_error_with_a_status_of_success_asks_for_a_sign_in() {
    let (world, env) = (World::new(), LoginEnv::new());
    let url = world.url();
    let dpop = json!({"access_token": "x", "token_type": "DPoP"});
    for (status, answer, code, words) in [
        (200, json!({"error": "access_denied"}), 3, "access_denied"),
        (200, dpop, 3, "token type DPoP"),
        (429, json!({}), 4, "HTTP 429"),
    ] {
        world.change(|known| known.token_answer = Some((status, answer)));
        let ran = env.sign_in(&["login", &url]);
        assert_eq!(ran.code, Some(code), "{ran:#?}");
        assert!(ran.err.contains(words), "{ran:#?}");
        assert!(!ran.err.contains("could not reach"), "{ran:#?}");
    }
    world.change(|known| known.token_answer = None);
    assert_eq!(env.sign_in(&["login", &url]).code, Some(0));
    env.change_login(&url, |login| {
        (login["refresh_at"], login["expires_at"]) = (json!(1), json!(1));
    });
    world.change(|known| {
        known.live.clear();
        known.token_answer = Some((200, json!({"error": "bad_refresh_token"})));
    });
    let ran = env.run(&["-s", &url, "call", "quick"]);
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    assert!(ran.err.contains("bad_refresh_token"), "{ran:#?}");
}

#[test]
fn two_processes_that_refresh_at_once_spend_one_refresh_token() {
    let (world, env) = (World::new(), LoginEnv::new());
    let url = world.url();
    assert_eq!(env.sign_in(&["login", &url]).code, Some(0));
    // Its time is over, whatever the clock says.
    env.change_login(&url, |login| {
        (login["refresh_at"], login["expires_at"]) = (json!(0), json!(0));
    });
    let start = |session: &str| {
        let words = ["--session", session, "-s", &url, "tools"];
        Running::start(&mut env.command(&words))
    };
    let many: Vec<Running> = ["a", "b", "c", "d"]
        .iter()
        .map(|name| start(name))
        .collect();
    for running in many {
        let ran = running.end();
        assert_eq!(ran.code, Some(0), "{ran:#?}");
    }
    world.change(|known| {
        assert_eq!(known.grants.len(), 2, "one code, one refresh");
        let text = fs::read_to_string(env.logins()).unwrap();
        assert!(text.contains(known.refresh.as_ref().unwrap()));
    });
}

#[test]
fn next_sign_in_requests_the_additional_scope() {
    let (world, env) = (World::new(), LoginEnv::new());
    let url = world.url();
    assert_eq!(env.sign_in(&["login", &url]).code, Some(0));
    let ran = env.run(&["-s", &url, "call", "admin"]);
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    assert_eq!(env.sign_in(&["login", &url]).code, Some(0));
    world.change(|known| {
        assert_eq!(known.authorized[1]["scope"], "tools offline_access admin");
        // The registration is the old one, on the old port, unless somebody else has that port now.
        let is_same = |name: &str| known.authorized[1][name] == known.authorized[0][name];
        assert_eq!(is_same("redirect_uri"), is_same("client_id"));
        assert_eq!(known.registrations.len() == 1, is_same("client_id"));
    });
    let ran = env.run(&["-s", &url, "call", "admin"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
}

#[test]
fn registers_anew_where_the_issuer_has_forgotten_the_client() {
    let (world, env) = (World::new(), LoginEnv::new());
    let url = world.url();
    assert_eq!(env.sign_in(&["login", &url]).code, Some(0));
    world.change(|known| known.forgotten = known.authorized[0].get("client_id").cloned());
    assert_eq!(env.sign_in(&["login", &url]).code, Some(0));
    world.change(|known| {
        assert_eq!(known.registrations.len(), 2);
        assert_eq!(known.authorized[1]["client_id"], "client-2");
    });
}

#[test]
fn sends_nothing_to_servers_with_inconsistent_metadata() {
    type Spoil = fn(&mut Known);
    let cases: [(&str, Spoil); 9] = [
        ("does not name its resource", |known| {
            known.is_without_resource = true;
        }),
        ("already contains the parameter state", |known| {
            known.has_own_state = true;
        }),
        ("calls itself", |known| {
            known.claimed_issuer = Some(format!("{}/", known.issuer));
        }),
        ("PKCE", |known| {
            let key = "code_challenge_methods_supported".to_owned();
            known.spoiled.insert(key, Value::Null);
        }),
        ("is invalid", |known| {
            known.spoiled.insert("token_endpoint".to_owned(), json!(7));
        }),
        ("another resource", |known| {
            known.claimed_resource = Some("https://elsewhere.example/mcp".to_owned());
        }),
        ("another origin", |known| {
            known.metadata_elsewhere = Some(format!("{}/prm", known.issuer));
        }),
        ("--client-id", |known| known.is_without_registration = true),
        ("plain http", |known| {
            known.issuer = "http://elsewhere.example".to_owned();
        }),
    ];
    for (words, spoil) in cases {
        let (world, env) = (World::new(), LoginEnv::new());
        let url = world.url();
        world.change(spoil);
        let ran = env.run(&["login", &url]);
        assert!(matches!(ran.code, Some(2 | 3)), "{words}: {ran:#?}");
        assert!(ran.err.contains(words), "{words}: {ran:#?}");
        world.change(|known| {
            assert!(
                known.authorized.is_empty() && known.grants.is_empty(),
                "{words}"
            );
            assert!(known.registrations.is_empty(), "{words}");
        });
        assert!(!env.logins().exists(), "{words}");
    }
}

#[test]
fn null_in_metadata_counts_as_absent() {
    let (world, env) = (World::new(), LoginEnv::new());
    for key in [
        "scopes_supported",
        "token_endpoint_auth_methods_supported",
        "client_id_metadata_document_supported",
    ] {
        world.change(|known| known.spoiled.insert(key.to_owned(), Value::Null));
    }
    let ran = env.sign_in(&["login", &world.url()]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
}

#[test]
fn signs_in_at_the_origin_of_a_server_without_metadata() {
    let (world, env) = (World::new(), LoginEnv::new());
    let url = world.url();
    world.change(|known| known.undescribed = Some(404));
    let ran = env.sign_in(&["login", &url]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let ran = env.run(&["-s", &url, "call", "quick"]);
    assert_eq!((ran.code, ran.out.trim()), (Some(0), "done"), "{ran:#?}");
    world.change(|known| {
        let asked = &known.authorized[0];
        assert_eq!(asked["code_challenge_method"], "S256");
        assert_eq!(asked["resource"], url);
        assert_eq!(known.registrations.len(), 1);
        // Refreshed at the same place.
        known.live.clear();
    });
    let ran = env.run(&["-s", &url, "call", "quick"]);
    assert_eq!((ran.code, ran.out.trim()), (Some(0), "done"), "{ran:#?}");
    let last = world.change(|known| known.grants.last().cloned()).unwrap();
    assert_eq!(last.0["grant_type"], "refresh_token");
}

#[test]
fn assumes_no_endpoints_where_metadata_may_exist() {
    type Spoil = fn(&mut Known);
    let cases: [(&str, Option<i32>, Spoil); 3] = [
        ("HTTP 429", Some(4), |known| known.undescribed = Some(429)),
        ("HTTP 503", Some(4), |known| known.undescribed = Some(503)),
        // A server with keys of its own and no sign-in at all.
        ("--bearer-env", Some(3), |known| {
            known.undescribed = Some(404);
            known.is_without_registration = true;
        }),
    ];
    for (words, code, spoil) in cases {
        let (world, env) = (World::new(), LoginEnv::new());
        let url = world.url();
        world.change(spoil);
        let ran = env.run(&["login", &url]);
        assert_eq!(ran.code, code, "{words}: {ran:#?}");
        assert!(ran.err.contains(words), "{words}: {ran:#?}");
        world.change(|known| {
            assert!(known.authorized.is_empty() && known.registrations.is_empty());
        });
    }
}

#[test]
fn ignores_a_redirect_with_a_wrong_state() {
    let (world, env) = (World::new(), LoginEnv::new());
    let (running, page) = env.begin(&["login", &world.url()]);
    let (_, back, _) = visit(&page);
    let back = back.unwrap();
    let mut forged = url::Url::parse(&back).unwrap();
    forged.set_query(Some("code=canary&state=guessed"));
    let (status, _, text) = visit(forged.as_str());
    assert_eq!(status, 400);
    assert!(text.contains("not the response"), "{text}");
    forged.set_query(Some("error=access_denied"));
    assert_eq!(visit(forged.as_str()).0, 400);
    assert!(world.change(|known| known.grants.is_empty()));
    assert_eq!(visit(&back).0, 200);
    let ran = running.end();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
}

#[test]
fn rejects_a_code_from_another_issuer() {
    for iss in ["http://127.0.0.1:1", ""] {
        let (world, env) = (World::new(), LoginEnv::new());
        world.change(|known| known.iss = Some(iss));
        let (running, page) = env.begin(&["login", &world.url()]);
        let mut back = url::Url::parse(&visit(&page).1.unwrap()).unwrap();
        if iss.is_empty() {
            // An issuer that always says who it is, and an answer that does not.
            let query = back
                .query()
                .unwrap()
                .split("&iss=")
                .next()
                .unwrap()
                .to_owned();
            back.set_query(Some(&query));
        }
        assert_eq!(visit(back.as_str()).0, 400);
        let ran = running.end();
        assert_eq!(ran.code, Some(3), "{ran:#?}");
        assert!(ran.err.contains("its code was not used"), "{ran:#?}");
        assert!(world.change(|known| known.grants.is_empty()));
    }
    // The same, told truly.
    let (world, env) = (World::new(), LoginEnv::new());
    world.change(|known| known.iss = Some(""));
    assert_eq!(env.sign_in(&["login", &world.url()]).code, Some(0));
}

#[test]
fn a_used_code_does_not_sign_in() {
    let (world, env) = (World::new(), LoginEnv::new());
    assert_eq!(env.sign_in(&["login", &world.url()]).code, Some(0));
    let before = fs::read(env.logins()).unwrap();
    let (running, page) = env.begin(&["login", &world.url()]);
    let mut back = url::Url::parse(&visit(&page).1.unwrap()).unwrap();
    let query = back
        .query()
        .unwrap()
        .replace("canary-code-2", "canary-code-1");
    back.set_query(Some(&query));
    assert_eq!(visit(back.as_str()).0, 200);
    let ran = running.end();
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    assert!(ran.err.contains("invalid_grant"), "{ran:#?}");
    assert_eq!(fs::read(env.logins()).unwrap(), before);
}

#[test]
fn prefers_client_id_over_metadata_url_over_registration() {
    let (world, env) = (World::new(), LoginEnv::new());
    let url = world.url();
    world.change(|known| known.reads_documents = true);
    let mut command = env.command(&["login", &url, "--client-id", "mine: 1"]);
    command.args(["--client-secret-env", "MY_SECRET"]);
    command.env("MY_SECRET", SECRET);
    let (running, page) = env.begin_as(command);
    assert_eq!(visit(&visit(&page).1.unwrap()).0, 200);
    assert_eq!(running.end().code, Some(0));
    let document = "https://longhaul.example/client.json";
    let ran = env.sign_in(&["login", &url, "--client-metadata-url", document]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let seen = fs::read_to_string(env.path().join("seen")).unwrap();
    assert!(!seen.contains("canary"), "{seen}");
    world.change(|known| {
        assert!(known.registrations.is_empty());
        assert_eq!(known.authorized[0]["client_id"], "mine: 1");
        assert_eq!(known.authorized[1]["client_id"], document);
        let basic = longhaul::domain::base64(b"mine%3A+1:canary-secret%2Fz%2B9%3D");
        let (form, authorization) = &known.grants[0];
        assert_eq!(authorization.as_deref(), Some(&*format!("Basic {basic}")));
        assert!(!form.contains_key("client_secret"));
        assert_eq!(known.grants[1].0["client_id"], document);
    });
}

#[test]
fn binds_a_client_secret_to_its_issuer_until_logout() {
    let (world, env) = (World::new(), LoginEnv::new());
    let url = world.url();
    let with_secret = || {
        let mut command = env.command(&["login", &url, "--client-id", "mine"]);
        command.args(["--client-secret-env", "MY_SECRET"]);
        command.env("MY_SECRET", SECRET);
        command
    };
    let sign_in = || {
        let (running, page) = env.begin_as(with_secret());
        assert_eq!(visit(&visit(&page).1.unwrap()).0, 200);
        running.end()
    };
    assert_eq!(sign_in().code, Some(0));
    // The same machine under another name is another issuer.
    let (before, now) = world.change(|known| {
        let before = known.issuer.clone();
        known.issuer = before.replace("127.0.0.1", "localhost");
        (before, known.issuer.clone())
    });
    let ran = finish(&mut with_secret());
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    for words in [&*before, &now, "longhaul logout"] {
        assert!(ran.err.contains(words), "{ran:#?}");
    }
    assert_eq!(world.change(|known| known.grants.len()), 1);
    assert_eq!(env.run(&["logout", &url]).code, Some(0));
    let (running, page) = env.begin_as(with_secret());
    let page = page.replace("localhost", "127.0.0.1");
    assert_eq!(visit(&visit(&page).1.unwrap()).0, 200);
    assert_eq!(running.end().code, Some(0));
}

#[test]
fn reports_and_renames_a_damaged_login_file() {
    let (world, env) = (World::new(), LoginEnv::new());
    let url = world.url();
    write_atomically(&env.logins(), b"{\"version\": 1, \"logins\": {\"canary").unwrap();
    let ran = env.run(&["-s", &url, "tools"]);
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    assert!(ran.err.contains("is damaged"), "{ran:#?}");
    let looked = env.run(&["doctor"]);
    assert!(looked.out.contains("is damaged"), "{looked:#?}");
    assert!(env.logins().exists());
    let ran = env.sign_in(&["login", &url]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.err.contains("was renamed to"), "{ran:#?}");
    assert!(!ran.err.contains("canary"), "{ran:#?}");
    let aside = fs::read(env.path().join("logins.damaged.json")).unwrap();
    assert!(aside.ends_with(b"canary"));
    assert_eq!(env.run(&["-s", &url, "tools"]).code, Some(0));
    // One of a newer program is left alone.
    let newer = b"{\"version\": 3}";
    write_atomically(&env.logins(), newer).unwrap();
    let ran = env.run(&["login", &url]);
    assert_eq!(ran.code, Some(73), "{ran:#?}");
    assert_eq!(fs::read(env.logins()).unwrap(), newer);
}

/// A call whose client was killed, on a server that takes none of its tokens any more and has the result by now.
fn left_and_signed_out() -> (World, LoginEnv, String) {
    let (world, env) = (World::new(), LoginEnv::new());
    let url = world.url();
    assert_eq!(env.sign_in(&["login", &url]).code, Some(0));
    let mut call = Running::start(&mut env.command(&["-s", &url, "call", "long", "--json"]));
    let id = id_of(&call.prints(|event| event["event"] == "progress"));
    call.signal(Signal::KILL);
    let _ = call.end();
    world.change(Known::revoke_all);
    world.inner.phase.send_replace(2);
    (world, env, id)
}

#[test]
fn a_waiting_task_resumes_after_login_in_another_terminal() {
    let (world, env, id) = left_and_signed_out();
    let url = world.url();
    let mut screen = env.env.open(&["attach", &id], (120, 36));
    screen.wait_for("or run `longhaul");
    for words in [&["ls", "--needs-you", "--json"][..], &["ls", "--json"]] {
        let listed = env.run(words).document();
        assert_eq!(listed[0]["contact"], "needs-login", "{words:?}: {listed}");
    }
    let shown = env.run(&["show", &id]);
    let waits = "waiting: the server needs sign-in, credentials or approval";
    assert!(shown.out.contains(waits), "{shown:#?}");
    assert!(env.run(&["ls"]).out.contains("running, needs you"));
    let (running, page) = env.begin(&["login", &url]);
    assert_eq!(visit(&visit(&page).1.unwrap()).0, 200);
    assert_eq!(running.end().code, Some(0));
    screen.wait_for_line(&[&id, "completed"]);
    screen.press("q");
}

#[test]
fn a_login_replaces_rejected_credentials_of_a_command() {
    let (world, env, id) = left_and_signed_out();
    let url = world.url();
    let credentials = ["-s", &url, "-H", "Authorization: Bearer wrong"];
    let mut screen = env
        .env
        .open(&[&credentials[..], &["attach", &id]].concat(), (120, 36));
    screen.wait_for("401");
    assert_eq!(env.sign_in(&["login", &url]).code, Some(0));
    screen.wait_for_line(&[&id, "completed"]);
    screen.press("q");
}

#[test]
fn wait_and_watch_after_login_ignore_the_earlier_failure() {
    let (world, env, id) = left_and_signed_out();
    let url = world.url();
    let mut screen = env.env.open(&["attach", &id], (120, 36));
    screen.wait_for("or run `longhaul");
    for command in ["wait", "watch"] {
        let before = env.run(&[command, &id]);
        assert_eq!(before.code, Some(3), "{before:#?}");
    }
    assert_eq!(env.sign_in(&["login", &url]).code, Some(0));
    for command in ["wait", "watch"] {
        let after = env.run(&[command, &id]);
        assert_eq!(after.code, Some(0), "{after:#?}");
    }
    screen.press("q");
}

#[test]
fn commands_exit_with_a_hint_when_login_is_required() {
    let (_world, env, id) = left_and_signed_out();
    for command in ["watch", "wait", "resume"] {
        let ran = env.run(&[command, &id]);
        assert_eq!(ran.code, Some(3), "{command}: {ran:#?}");
        assert!(ran.err.contains("longhaul login"), "{command}: {ran:#?}");
    }
}

#[test]
fn wait_follows_runnable_tasks_beside_ones_that_need_login() {
    let (_world, env, id) = left_and_signed_out();
    let other = World::new();
    let url = other.url();
    assert_eq!(env.sign_in(&["login", &url]).code, Some(0));
    let mut call = Running::start(&mut env.command(&["-s", &url, "call", "long", "--json"]));
    let second = id_of(&call.prints(|event| event["event"] == "progress"));
    call.signal(Signal::KILL);
    let _ = call.end();
    let mut waiting = Running::start(&mut env.command(&["wait", &id, &second]));
    waiting.says("its tasks are waiting");
    other.inner.phase.send_replace(2);
    let ran = waiting.end();
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    assert_eq!(ran.out, format!("{second} completed\n"), "{ran:#?}");
    assert!(ran.err.contains("then wait again"), "{ran:#?}");
}

#[test]
fn the_screen_shows_the_host_before_opening_the_login_page() {
    let (world, env, id) = left_and_signed_out();
    let page = env.path().join("page");
    fs::remove_file(&page).unwrap();
    let browser = [("BROWSER", env.browser.as_str())];
    let words = ["attach", &id];
    let mut screen = env
        .env
        .open_with(&browser, pty::program(), &words, (120, 36));
    screen.wait_for("needs sign-in: L");
    screen.press("L");
    let host = world.change(|known| known.issuer.replace("http://", "a page at "));
    screen.wait_for(&host);
    assert!(!page.exists());
    // Keys typed right after a dialog opens are ignored.
    let until = std::time::Instant::now() + DEADLINE;
    while !page.exists() {
        assert!(std::time::Instant::now() < until, "no browser was started");
        screen.press("o");
        screen.watch_for(Duration::from_millis(100));
    }
    let page = fs::read_to_string(page).unwrap();
    assert_eq!(visit(&visit(&page).1.unwrap()).0, 200);
    screen.wait_for("signed in to");
    screen.wait_for_line(&[&id, "completed"]);
    screen.press("q");
}

#[test]
fn no_secret_is_anywhere_but_in_the_file_of_logins() {
    let (world, env) = (World::new(), LoginEnv::new());
    let url = world.url();
    let mut texts = String::new();
    let mut note = |ran: &Ran| texts.extend([ran.out.as_str(), ran.err.as_str()]);
    let mut command = env.command(&["login", &url, "-vvv", "--client-id", "mine"]);
    command.args(["--client-secret-env", "MY_SECRET"]);
    command.env("MY_SECRET", SECRET);
    let (running, page) = env.begin_as(command);
    let cmdlines = cmdlines_of(env.path());
    assert_eq!(visit(&visit(&page).1.unwrap()).0, 200);
    note(&running.end());
    world.change(|known| {
        known.secrets.insert(SECRET.to_owned());
        known.live.clear();
    });
    note(&env.run(&["-s", &url, "-vvv", "call", "quick", "--json"]));
    note(&env.run(&["-s", &url, "-vvv", "call", "admin", "--json"]));
    let mut command = env.command(&["-s", &url, "-vvv", "tools"]);
    note(&finish(command.env("LONGHAUL_PANIC_IN", "network")));
    // Refused, with the token in the words of both servers.
    world.change(Known::revoke_all);
    note(&env.run(&["-s", &url, "-vvv", "tools"]));
    let (running, page) = env.begin(&["login", &url, "-vvv"]);
    let back = visit(&page).1.unwrap();
    world.change(|known| known.used_codes.insert(code(2)));
    visit(&back);
    note(&running.end());
    let secrets = world.change(|known| known.secrets.clone());
    assert!(secrets.len() >= 6, "{secrets:?}");
    let mut files = vec![("output".to_owned(), texts.into_bytes())];
    files.push(("command lines".to_owned(), cmdlines.into_bytes()));
    let sessions = fs::read_dir(env.path().join("sessions")).unwrap();
    let others = fs::read_dir(env.path()).unwrap();
    for entry in sessions.chain(others) {
        let path = entry.unwrap().path();
        if path.is_file() && path != env.logins() {
            let name = path.display().to_string();
            files.push((name, fs::read(path).unwrap()));
        }
    }
    assert!(
        files
            .iter()
            .any(|(name, bytes)| name.ends_with("default.log") && !bytes.is_empty())
    );
    for (name, bytes) in &files {
        for secret in &secrets {
            let encoded: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
            let is_in = [secret, &encoded].iter().any(|secret| {
                let mut parts = bytes.windows(secret.len());
                parts.any(|part| part == secret.as_bytes())
            });
            assert!(
                !is_in,
                "{secret} in {name}: {}",
                String::from_utf8_lossy(bytes)
            );
        }
    }
}

/// The command lines of all processes that name a directory.
fn cmdlines_of(path: &Path) -> String {
    let path = path.to_str().unwrap();
    let mut all = String::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let text = fs::read(entry.unwrap().path().join("cmdline")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        if text.contains(path) {
            all.push_str(&text);
        }
    }
    all
}
