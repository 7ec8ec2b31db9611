//! An MCP server that does nothing but send progress, as fast as the socket takes it or at a pace; a process of its own,
//! so that its CPU time is nobody's else.
//!
//! The first line of stdout is its URL. Then it says `open` when a call or a resume has its first event and waits at the
//! gate, and `done N S` when all N events of one were read to the end, S seconds after the gate was opened. `go` on
//! stdin opens the gate, `shut` shuts it again; `tick` sends an event of no progress on each stream at the gate, after
//! which it says `ticked`; the end of stdin ends it.
//!
//! The arguments of the tool `blast`: `count` events, `every_ms` between batches of `batch` (0: as fast as it goes),
//! `missed` events that only a resume brings, `chunk_bytes` of events in one HTTP chunk (0: one event), `says_sent`: it
//! says `sent` after each batch at a pace.

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{now, pass};

/// Bytes handed to the socket at once.
const BLOCK: usize = 64 * 1024;

/// The gate before every stream; since when it is open.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
struct GateState {
    opened: Option<Instant>,
    ticks: u64,
}

impl Gate {
    /// Waits until it is open, and calls `tick` with the number of each tick until then.
    fn pass(&self, mut tick: impl FnMut(u64) -> std::io::Result<()>) -> std::io::Result<Instant> {
        // A tick may come before the stream is at the gate.
        let mut ticks = 0;
        loop {
            let state = self.state.lock().unwrap();
            let nothing = |state: &mut GateState| state.opened.is_none() && state.ticks == ticks;
            let state = *self.changed.wait_while(state, nothing).unwrap();
            if let Some(opened) = state.opened {
                return Ok(opened);
            }
            ticks = state.ticks;
            tick(ticks)?;
        }
    }
}

/// What a call asked for.
#[derive(Clone)]
struct Wish {
    token: Value,
    id: Value,
    count: u64,
    every_ms: u64,
    batch: u64,
    missed: u64,
    chunk_bytes: usize,
    says_sent: bool,
}

#[derive(Default)]
struct Server {
    gate: Gate,
    calls: Mutex<Vec<Wish>>,
    requests: AtomicU64,
}

/// Serves until stdin ends.
pub(crate) fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Arc::new(Server::default());
    say(&format!("http://{}/mcp", listener.local_addr().unwrap()));
    let of_listener = Arc::clone(&server);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let server = Arc::clone(&of_listener);
            // A thousand calls are a thousand threads.
            std::thread::Builder::new()
                .stack_size(128 * 1024)
                .spawn(move || {
                    // A client that went away ends its thread only.
                    let _ = answer(&server, stream);
                })
                .unwrap();
        }
    });
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let mut state = server.gate.state.lock().unwrap();
        match line.as_str() {
            "tick" => state.ticks += 1,
            line => state.opened = (line == "go").then(now),
        }
        server.gate.changed.notify_all();
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    // Nobody listens any more.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn answer(server: &Server, mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    // A second handle of the socket would halve the number of calls that fit into the limit of open files.
    let mut reader = BufReader::new(&stream);
    let (mut method, mut cursor, mut length) = (String::new(), None, 0);
    for place in 0.. {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end();
        if place == 0 {
            line.split(' ')
                .next()
                .unwrap_or_default()
                .clone_into(&mut method);
        }
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "last-event-id" => cursor = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    server.requests.fetch_add(1, Ordering::SeqCst);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    match (method.as_str(), cursor) {
        ("POST", _) => {
            let message: Value = serde_json::from_slice(&body).unwrap_or_default();
            posted(server, &mut stream, &message)
        }
        ("GET", Some(cursor)) => {
            let of = cursor
                .split('/')
                .next()
                .and_then(|place| place.parse::<usize>().ok());
            let wish = of.and_then(|of| server.calls.lock().unwrap().get(of).cloned());
            match wish {
                Some(wish) => resume(server, &mut stream, of.unwrap_or(0), &wish),
                None => short(&mut stream, "404 Not Found", ""),
            }
        }
        ("GET", None) => short(&mut stream, "405 Method Not Allowed", ""),
        _ => short(&mut stream, "200 OK", ""),
    }
}

fn posted(server: &Server, stream: &mut TcpStream, message: &Value) -> std::io::Result<()> {
    let id = message.get("id").cloned();
    let params = message.get("params").cloned().unwrap_or_default();
    let result = match message.get("method").and_then(Value::as_str) {
        Some("initialize") => json!({
            "protocolVersion": params.get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "blast", "version": "1"},
        }),
        Some("tools/list") => {
            json!({"tools": [{"name": "blast", "inputSchema": {"type": "object"}}]})
        }
        Some("tools/call") => {
            let number = |name: &str, or: u64| {
                let value = params.pointer(&format!("/arguments/{name}"));
                value.and_then(Value::as_u64).unwrap_or(or)
            };
            let wish = Wish {
                token: params
                    .pointer("/_meta/progressToken")
                    .cloned()
                    .unwrap_or_default(),
                id: id.unwrap_or_default(),
                count: number("count", 1),
                every_ms: number("every_ms", 0),
                batch: number("batch", 1),
                missed: number("missed", 0),
                chunk_bytes: usize::try_from(number("chunk_bytes", 0)).unwrap(),
                says_sent: number("says_sent", 0) == 1,
            };
            let mut calls = server.calls.lock().unwrap();
            calls.push(wish.clone());
            let place = calls.len() - 1;
            drop(calls);
            return call(server, stream, place, &wish);
        }
        Some("ping") => json!({}),
        _ if id.is_none() => return short(stream, "202 Accepted", ""),
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            let said = json!({"jsonrpc": "2.0", "id": id, "error": error});
            return short(stream, "200 OK", &said.to_string());
        }
    };
    let said = json!({"jsonrpc": "2.0", "id": id, "result": result});
    short(stream, "200 OK", &said.to_string())
}

fn short(stream: &mut TcpStream, status: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nMcp-Session-Id: one\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

/// Adds one event as an HTTP chunk of its own.
fn add(out: &mut String, event: &str) {
    // A string takes everything.
    let _ = write!(out, "{:x}\r\n{event}\r\n", event.len());
}

fn step(out: &mut String, scratch: &mut String, place: usize, wish: &Wish, number: u64) {
    let total = wish.count + wish.missed;
    let _ = write!(
        scratch,
        "id: {place}/{number}\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":\
         {},\"progress\":{number},\"total\":{total},\"message\":\"Processed {number}/{total} records\"}}}}\n\n",
        wish.token
    );
    if scratch.len() >= wish.chunk_bytes {
        add(out, scratch);
        scratch.clear();
    }
}

fn begin(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nMcp-Session-Id: one\r\nTransfer-Encoding: chunked\r\n\
          Connection: close\r\n\r\n",
    )
}

fn call(server: &Server, stream: &mut TcpStream, place: usize, wish: &Wish) -> std::io::Result<()> {
    begin(stream)?;
    let mut out = String::new();
    add(&mut out, &format!("id: {place}/0\ndata:\n\n"));
    stream.write_all(out.as_bytes())?;
    if wish.missed > 0 {
        let mut out = String::new();
        step(&mut out, &mut String::new(), place, wish, 1);
        stream.write_all(out.as_bytes())?;
        say("open");
        // The stream is cut; what is missed only a resume brings.
        return Ok(());
    }
    say("open");
    send(server, stream, place, wish, 1)
}

fn resume(
    server: &Server,
    stream: &mut TcpStream,
    place: usize,
    wish: &Wish,
) -> std::io::Result<()> {
    begin(stream)?;
    let mut out = String::new();
    let mut scratch = String::new();
    for number in 2..=wish.missed + 1 {
        step(&mut out, &mut scratch, place, wish, number);
    }
    stream.write_all(out.as_bytes())?;
    say("open");
    send(server, stream, place, wish, wish.missed + 2)
}

fn send(
    server: &Server,
    stream: &mut TcpStream,
    place: usize,
    wish: &Wish,
    first: u64,
) -> std::io::Result<()> {
    let numbers = first..first + wish.count;
    let mut scratch = String::new();
    let mut answer = String::new();
    let result = json!({"jsonrpc": "2.0", "id": wish.id, "result": {"content": [{"type": "text", "text": "all sent"}]}});
    add(
        &mut answer,
        &format!("id: {place}/{}\ndata: {result}\n\n", numbers.end),
    );
    answer.push_str("0\r\n\r\n");
    let began;
    if wish.every_ms == 0 {
        // Ready before it begins: only the sending counts.
        let mut blocks = vec![String::new()];
        for number in numbers {
            if blocks.last().is_some_and(|block| block.len() > BLOCK) {
                blocks.push(String::with_capacity(BLOCK + 512));
            }
            step(
                blocks.last_mut().unwrap(),
                &mut scratch,
                place,
                wish,
                number,
            );
        }
        if !scratch.is_empty() {
            add(blocks.last_mut().unwrap(), &scratch);
        }
        began = server.gate.pass(|number| {
            let mut event = String::new();
            add(
                &mut event,
                &format!(
                    "id: {place}/tick{number}\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\
                     \"params\":{{\"progressToken\":{},\"progress\":0}}}}\n\n",
                    wish.token
                ),
            );
            stream.write_all(event.as_bytes())?;
            say("ticked");
            Ok(())
        })?;
        for block in blocks {
            stream.write_all(block.as_bytes())?;
        }
    } else {
        began = server.gate.pass(|_| Ok(()))?;
        let mut due = now();
        let mut out = String::new();
        let mut numbers = numbers.peekable();
        // Streams that begin together do not tick together.
        pass(Duration::from_millis(place as u64 * 7 % wish.every_ms));
        while numbers.peek().is_some() {
            out.clear();
            for number in numbers.by_ref().take(usize::try_from(wish.batch).unwrap()) {
                step(&mut out, &mut scratch, place, wish, number);
            }
            stream.write_all(out.as_bytes())?;
            if wish.says_sent {
                say("sent");
            }
            due += Duration::from_millis(wish.every_ms);
            pass(due.saturating_duration_since(now()));
        }
    }
    stream.write_all(answer.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    // The other side closes once it has read to the end.
    let _ = stream.read(&mut [0; 16]);
    say(&format!(
        "done {} {}",
        wish.count,
        began.elapsed().as_secs_f64()
    ));
    Ok(())
}
