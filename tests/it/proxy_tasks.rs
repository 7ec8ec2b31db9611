//! `longhaul proxy`: calls as tasks, for hosts that can follow them.

#![cfg(feature = "demo")]
#![expect(
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use serde_json::{Value, json};

use crate::support::{
    agent_host::{AgentHost, text},
    kept::{Kept, finish_steps, programs, until},
    server,
};

fn steps(kept: &Kept) -> String {
    programs(kept, 1).remove(0)
}

fn as_task(tool: &str, arguments: &Value) -> Value {
    json!({"name": tool, "arguments": arguments, "task": {"ttl": 60_000}, "_meta": {"progressToken": "p"}})
}

#[test]
fn a_host_of_2025_11_25_follows_a_call_as_a_task() {
    let kept = Kept::new();
    let mut host = AgentHost::start(&kept, &[&steps(&kept)], &json!({}));
    let offered = &host.handshake["capabilities"]["tasks"];
    assert_eq!(offered["requests"]["tools"]["call"], json!({}));
    let list = host.request("tools/list", &json!({}));
    let execution = &list["result"]["tools"][0]["execution"];
    assert_eq!(execution["taskSupport"], "optional");
    let created = host.request("tools/call", &as_task("work", &json!({})));
    let task = &created["result"]["task"];
    assert_eq!(
        (&task["status"], &task["ttl"]),
        (&json!("working"), &Value::Null)
    );
    let id = json!({"taskId": task["taskId"]});
    // Progress continues under the token of the call.
    let progress = host.wait(|message| message["method"] == "notifications/progress");
    assert_eq!(progress["params"]["progressToken"], "p");
    assert_eq!(
        host.request("tasks/get", &id)["result"]["status"],
        "working"
    );
    let all = host.request("tasks/list", &json!({}));
    assert_eq!(all["result"]["tasks"][0]["taskId"], task["taskId"]);
    let result = host.ask("tasks/result", &id);
    finish_steps(&kept);
    let result = host.response(result)["result"].take();
    assert!(text(&result).ends_with(" steps"), "{result}");
    let related = result.pointer("/_meta/io.modelcontextprotocol~1related-task/taskId");
    assert_eq!(related, Some(&task["taskId"]));
    let told = host.wait(|message| message["method"] == "notifications/tasks/status");
    assert_eq!(told["params"]["status"], "completed");
    let refused = host.request("tasks/cancel", &id);
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let unknown = host.request("tasks/get", &json!({"taskId": "zzzzzz"}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    host.close();
}

#[test]
fn only_tasks_cancel_ends_a_task() {
    let kept = Kept::new();
    let mut host = AgentHost::start(&kept, &[&steps(&kept)], &json!({}));
    let created = host.request("tools/call", &as_task("work", &json!({})));
    let id = json!({"taskId": created["result"]["task"]["taskId"]});
    let waiting = host.ask("tasks/result", &id);
    let reason = json!({"requestId": waiting, "reason": "the user pressed Esc"});
    host.notify("notifications/cancelled", &reason);
    assert_eq!(
        host.request("tasks/get", &id)["result"]["status"],
        "working"
    );
    let cancelled = host.request("tasks/cancel", &id);
    assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
    let tasks = kept.ok(&["ls", "--json"]).document();
    until("longhaul's task is cancelled too", || {
        kept.was_cancelled(&tasks[0])
    });
    host.close();
}

#[test]
fn a_question_of_a_task_names_it() {
    let kept = Kept::new();
    let forms = json!({"elicitation": {"form": {}}});
    let mut host = AgentHost::start(&kept, &[&steps(&kept)], &forms);
    let created = host.request("tools/call", &as_task("ask", &json!({})));
    let task = created["result"]["task"]["taskId"].clone();
    let question = host.wait(|message| message["method"] == "elicitation/create");
    let related = question.pointer("/params/_meta/io.modelcontextprotocol~1related-task/taskId");
    assert_eq!(related, Some(&task), "{question}");
    let answer = json!({"action": "accept", "content": {"colour": "red"}});
    host.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
    let result = host.request("tasks/result", &json!({"taskId": task}));
    assert_eq!(text(&result["result"]), "you said red");
    host.close();
}

/// Parameters of the modern era, from a host that shows forms and follows tasks.
fn modern(mut params: Value, has_tasks: bool) -> Value {
    let key = |name: &str| format!("io.modelcontextprotocol/{name}");
    let mut capabilities = json!({"elicitation": {"form": {}}});
    if has_tasks {
        capabilities["extensions"] = json!({key("tasks"): {}});
    }
    params["_meta"] = json!({
        key("protocolVersion"): "2026-07-28",
        key("clientInfo"): {"name": "modern-host", "version": "2"},
        key("clientCapabilities"): capabilities,
    });
    params
}

#[test]
fn a_modern_host_gets_a_task_for_a_call_that_takes_long() {
    let kept = Kept::new();
    let mut host = AgentHost::connect(&kept, &[&steps(&kept)]);
    let found = host.request("server/discover", &modern(json!({}), true));
    let extensions = &found["result"]["capabilities"]["extensions"];
    assert_eq!(extensions["io.modelcontextprotocol/tasks"], json!({}));
    let call = json!({"name": "work", "arguments": {}});
    let task = host.request("tools/call", &modern(call, true))["result"].take();
    assert_eq!(
        (&task["resultType"], &task["status"]),
        (&json!("task"), &json!("working"))
    );
    let id = json!({"taskId": task["taskId"]});
    let refused = host.request("tasks/get", &modern(id.clone(), false));
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    let state = host.request("tasks/get", &modern(id.clone(), true))["result"].take();
    assert_eq!(
        (&state["resultType"], &state["status"]),
        (&json!("complete"), &json!("working"))
    );
    finish_steps(&kept);
    let id_text = task["taskId"].as_str().unwrap();
    kept.ok(&["wait", id_text]);
    let state = host.request("tasks/get", &modern(id, true))["result"].take();
    assert_eq!(state["status"], "completed", "{state}");
    assert!(text(&state["result"]).ends_with(" steps"), "{state}");
    host.close();
}

#[test]
fn a_modern_host_cancels_a_task() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let mut host = AgentHost::connect(&kept, &[&server.url()]);
    let call = json!({"name": "get_forecast", "arguments": {"city": "Rome", "stations": 50, "delay_ms": 100}});
    let task = host.request("tools/call", &modern(call, true))["result"].take();
    assert_eq!(task["resultType"], "task", "{task}");
    let id = json!({"taskId": task["taskId"]});
    let done = host.request("tasks/cancel", &modern(id.clone(), true))["result"].take();
    assert_eq!(done["resultType"], "complete", "{done}");
    let state = host.request("tasks/get", &modern(id, true))["result"].take();
    assert_eq!(state["status"], "cancelled", "{state}");
    host.close();
}
