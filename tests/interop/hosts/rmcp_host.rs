//! An agent's host on the official Rust SDK (rmcp 3.8): `interop-rmcp-host PROFILE`, with the profile as JSON.
//!
//! `faults.py` says what a profile has, what a host reads on stdin, and what it prints.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test program: it talks on stdout, and a surprise ends it"
)]

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    io::BufRead,
    process::Stdio,
    time::Duration,
};

use rmcp::{
    ClientHandler, RoleClient, ServiceError, ServiceExt,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
        ClientConfig, ClientRequest, JsonObject, ProgressNotificationParam, RequestMetaObject,
        ServerResult,
    },
    service::{NotificationContext, Peer, PeerRequestOptions, RunningService},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    process::Command,
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};

#[derive(Clone, Deserialize)]
struct Profile {
    client: Value,
    revision: String,
    capabilities: Value,
    command: Vec<String>,
    environment: BTreeMap<String, String>,
    directory: String,
    limit_ms: Option<u64>,
    at_timeout: Option<Cancel>,
    at_esc: Option<Cancel>,
    call_id_key: Option<String>,
}

/// The notification that a host sends when it gives up.
#[derive(Clone, Deserialize)]
struct Cancel {
    reason: Option<String>,
}

/// A line on stdin.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
enum Step {
    Connect,
    Call {
        call: u64,
        tool: String,
        arguments: JsonObject,
    },
    Esc {
        call: u64,
    },
    End,
}

fn print(event: &Value) {
    println!("{event}");
}

#[derive(Clone)]
struct Host(ClientConfig);

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        self.0.clone()
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        print(&json!({"event": "progress", "value": progress.progress}));
    }
}

async fn connect(profile: &Profile) -> Result<RunningService<RoleClient, Host>, Box<dyn Error>> {
    let mut command = Command::new(&profile.command[0]);
    command
        .args(&profile.command[1..])
        .envs(&profile.environment)
        .current_dir(&profile.directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let handshake = json!({
        "protocolVersion": profile.revision,
        "capabilities": profile.capabilities,
        "clientInfo": profile.client,
    });
    let host = Host(serde_json::from_value(handshake)?);
    let mut server = command.spawn()?;
    let pipes = server.stdout.take().zip(server.stdin.take());
    let service = host.serve(pipes.ok_or("no pipes")?).await?;
    let tools = service.list_all_tools().await?;
    let names: Vec<_> = tools.iter().map(|tool| tool.name.clone()).collect();
    let revision = service
        .peer_info()
        .map(|info| info.protocol_version.clone());
    print(&json!({"event": "connected", "revision": revision, "tools": names}));
    Ok(service)
}

async fn call(
    profile: Profile,
    peer: Peer<RoleClient>,
    number: u64,
    params: CallToolRequestParams,
    esc: oneshot::Receiver<()>,
) {
    let began = Instant::now();
    let mut options = PeerRequestOptions::no_options();
    if let Some(key) = &profile.call_id_key {
        let mut meta = RequestMetaObject::new();
        meta.0.insert(key.clone(), format!("call-{number}").into());
        options = options.with_meta(meta);
    }
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let report = |event: &str, more: Value| {
        let mut line =
            json!({"event": event, "call": number, "seconds": began.elapsed().as_secs_f64()});
        line.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        print(&line);
    };
    let mut handle = match peer.send_cancellable_request(request, options).await {
        Ok(handle) => handle,
        Err(error) => return report("error", json!({"message": error.to_string()})),
    };
    let limit = profile
        .limit_ms
        .map(|limit| began + Duration::from_millis(limit));
    let timer = async {
        match limit {
            Some(limit) => sleep_until(limit).await,
            None => std::future::pending().await,
        }
    };
    let (why, cancel) = tokio::select! {
        response = &mut handle.rx => {
            let response = response.unwrap_or(Err(ServiceError::TransportClosed));
            return match response {
                Ok(ServerResult::CallToolResult(result)) => {
                    let result = serde_json::to_value(result).unwrap();
                    let is_error = result["isError"] == true;
                    report("answer", json!({"text": result["content"][0]["text"], "is_error": is_error}));
                }
                Ok(other) => report("error", json!({"message": format!("not a tool's result: {other:?}")})),
                Err(error) => report("error", json!({"message": error.to_string()})),
            };
        }
        () = timer => ("timeout", &profile.at_timeout),
        Ok(()) = esc => ("esc", &profile.at_esc),
    };
    if let Some(cancel) = cancel {
        let params =
            CancelledNotificationParam::new(Some(handle.id.clone()), cancel.reason.clone());
        let _ = peer
            .send_notification(CancelledNotification::new(params).into())
            .await;
    }
    report("gave_up", json!({"why": why}));
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let profile = std::env::args().nth(1).ok_or("no profile")?;
    let profile: Profile = serde_json::from_str(&profile)?;
    let (sender, mut steps) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let step: Step = serde_json::from_str(&line).expect("a step");
            if sender.send(step).is_err() {
                return;
            }
        }
    });
    let mut service = connect(&profile).await?;
    let mut escapes = HashMap::new();
    while let Some(step) = steps.recv().await {
        match step {
            Step::Connect => {
                let _ = service.cancel().await;
                service = connect(&profile).await?;
            }
            Step::Call {
                call: number,
                tool,
                arguments,
            } => {
                let params = CallToolRequestParams::new(tool).with_arguments(arguments);
                let (sender, esc) = oneshot::channel();
                escapes.insert(number, sender);
                let peer = service.peer().clone();
                tokio::spawn(call(profile.clone(), peer, number, params, esc));
            }
            Step::Esc { call } => {
                if let Some(sender) = escapes.remove(&call) {
                    let _ = sender.send(());
                }
            }
            Step::End => break,
        }
    }
    let _ = service.cancel().await;
    print(&json!({"event": "ended"}));
    Ok(())
}
