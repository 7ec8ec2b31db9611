//! The items of each menu.

use crate::{
    app::{
        Action, LeaveImpacts, ResultPart, SaveContent, State, Tab, View,
        call::command,
        detail,
        leave::is_viewer,
        menu::{MAX_COPY_BYTES, Menu, MenuAction, MenuItem, body::fits, item},
    },
    domain::{SessionRequest, Status, TaskId, text},
};

/// The default view, then each named view by its number.
pub(super) fn view_items(state: &State) -> Vec<MenuItem> {
    let all = item('0', "everything", MenuAction::ShowView(View::default()));
    let views = state.setup.views.iter().zip('1'..='9');
    let views = views.map(|(view, key)| {
        let label = format!("{}: {}", view.name, view.message());
        item(key, label, MenuAction::ShowView(view.clone()))
    });
    std::iter::once(all).chain(views).collect()
}

/// The items of a dialog. The first one is selected initially and is always harmless.
pub fn items(state: &State, menu: &Menu) -> Vec<MenuItem> {
    match menu {
        Menu::Leave => {
            let impacts = LeaveImpacts::of(state);
            let wait = item(
                'w',
                format!(
                    "leave once {} ended",
                    if impacts.dies.len() == 1 {
                        "the call that would be lost has"
                    } else {
                        "the calls that would be lost have"
                    }
                ),
                MenuAction::LeaveOnceSafe,
            );
            let cancel = item('c', "cancel all and leave", MenuAction::CancelAllAndLeave);
            let cancel = MenuItem {
                why_not: if state.setup.readonly {
                    Some("read only".to_owned())
                } else if is_viewer(state) {
                    Some("another process is the driver".to_owned())
                } else {
                    None
                },
                ..cancel
            };
            let mut items = vec![item('s', "stay", MenuAction::Close)];
            if !impacts.dies.is_empty() {
                items.push(wait);
            }
            items.extend([item('l', "leave", MenuAction::Leave), cancel]);
            items
        }
        Menu::Cancel(tasks) => vec![
            item('n', "no, keep it running", MenuAction::Close),
            item(
                'y',
                if tasks.len() == 1 {
                    "yes, cancel it".to_owned()
                } else {
                    format!("yes, cancel all {}", tasks.len())
                },
                MenuAction::Request(tasks.iter().cloned().map(SessionRequest::Cancel).collect()),
            ),
        ],
        Menu::StopNow(id) => vec![
            item('w', "wait for the server", MenuAction::Close),
            item(
                's',
                "stop it now and keep the checkpoint",
                MenuAction::Request(vec![SessionRequest::Cancel(id.clone())]),
            ),
        ],
        Menu::WhatNow(id) => recovery_items(state, id),
        Menu::Copy(id) => copy_items(state, id),
        Menu::Export(tasks) => {
            let save = |what, ending: &str| MenuAction::SaveAs {
                tasks: tasks.clone(),
                what,
                name: match tasks.as_slice() {
                    [id] => format!("{id}.{ending}"),
                    _ => ".".to_owned(),
                },
            };
            vec![
                item(
                    'p',
                    "as an HTML page with a timeline",
                    save(SaveContent::Page, "html"),
                ),
                item('j', "as JSON", save(SaveContent::Json, "json")),
                item('n', "do nothing", MenuAction::Close),
            ]
        }
        Menu::Part { task, part } => part_items(state, task, part),
        Menu::SignIn { page, .. } => vec![
            item(
                'o',
                "open it in the browser",
                MenuAction::OpenPage(page.url.clone()),
            ),
            item('y', "copy its URL", MenuAction::Copy(page.url.clone())),
            item('l', "later", MenuAction::Close),
        ],
        Menu::Views => view_items(state),
        Menu::Consent {
            server,
            lines,
            digest,
            is_program,
        } => {
            let (no, yes) = if *is_program {
                ("no, don't start it", "yes, start it")
            } else {
                ("no, send nothing", "yes, send these")
            };
            let agree = MenuAction::Approve {
                server: server.clone(),
                digest: digest.clone(),
            };
            let command = if *is_program { "approve" } else { "consent" };
            // The user must be able to read everything before approving it.
            let why_not = (!fits(state, lines)).then(|| {
                let server = text::shell_word(server.as_str());
                format!("too long to show here; use longhaul servers {command} {server}")
            });
            let yes = item('y', yes, agree);
            vec![
                item('n', no, MenuAction::Close),
                MenuItem { why_not, ..yes },
            ]
        }
        Menu::Drive(_) => vec![
            item('n', "no, let it continue", MenuAction::Close),
            item(
                'y',
                "yes, drive from here and end these calls",
                MenuAction::Request(vec![SessionRequest::HandOver { is_forced: true }]),
            ),
        ],
        Menu::Repeat { is_unchecked, .. } => vec![
            item('n', "no, back to the form", MenuAction::Close),
            item(
                'y',
                "yes, run it again",
                MenuAction::Repeat {
                    is_unchecked: *is_unchecked,
                },
            ),
        ],
        Menu::Import { lines, new } => {
            let count = text::plural(u64::try_from(*new).unwrap_or(u64::MAX), "server");
            let take = item('t', format!("import {count}"), MenuAction::ImportServers);
            let why_not = (*new == 0).then(|| "none of them is new".to_owned());
            let read = MenuAction::Read {
                title: "Servers found".to_owned(),
                lines: lines.clone(),
            };
            let read = (!fits(state, lines)).then(|| item('r', "show everything", read));
            [
                item('n', "not now", MenuAction::Close),
                MenuItem { why_not, ..take },
            ]
            .into_iter()
            .chain(read)
            .collect()
        }
        Menu::InjectFault => vec![
            item(
                'c',
                "cut the network for 5 s",
                MenuAction::InjectFault("cut 5".to_owned()),
            ),
            item(
                'r',
                "restart the server",
                MenuAction::InjectFault("restart".to_owned()),
            ),
            item(
                's',
                "stall: keep the connection open but silent",
                MenuAction::InjectFault("stall".to_owned()),
            ),
            item(
                'd',
                "drop the connection after the next event",
                MenuAction::InjectFault("drop".to_owned()),
            ),
            item(
                'u',
                "duplicate events on replay",
                MenuAction::InjectFault("duplicate".to_owned()),
            ),
            item(
                'f',
                "forget the session",
                MenuAction::InjectFault("forget".to_owned()),
            ),
            item(
                'p',
                "fail task polls for 5 s",
                MenuAction::InjectFault("polls".to_owned()),
            ),
            item(
                'h',
                "never respond to the next poll",
                MenuAction::InjectFault("hang".to_owned()),
            ),
        ],
    }
}

pub(super) fn part_items(state: &State, task: &TaskId, part: &ResultPart) -> Vec<MenuItem> {
    let leave = item('n', "do nothing", MenuAction::Close);
    if let Some(link) = &part.link {
        let open = item(
            'o',
            format!("open {} in the browser", link.host),
            MenuAction::OpenPage(link.full_url()),
        );
        let open = MenuItem {
            why_not: (!link.can_open).then(|| link.warnings.first().cloned().unwrap_or_default()),
            ..open
        };
        let copy = item('y', "copy its URI", MenuAction::Copy(link.full_url()));
        return vec![copy, open, leave];
    }
    let save = MenuAction::SaveAs {
        tasks: vec![task.clone()],
        what: SaveContent::Part(part.number),
        name: format!("{task}-{}.{}", part.number + 1, part.extension),
    };
    let open = MenuAction::OpenPart {
        task: task.clone(),
        part: part.number,
    };
    let why_not = part.why_not.clone().or_else(|| {
        let is_present = state.setup.viewer.is_some();
        (!is_present).then(|| "no desktop to open it on".to_owned())
    });
    let label = match &state.setup.viewer {
        Some(viewer) => format!("open it with {viewer}"),
        None => "open it".to_owned(),
    };
    vec![
        item('s', "save it to a file", save),
        MenuItem {
            why_not,
            ..item('o', label, open)
        },
        leave,
    ]
}

pub(super) fn recovery_items(state: &State, id: &TaskId) -> Vec<MenuItem> {
    let Some(task_row) = state.task(id) else {
        return vec![item('c', "close", MenuAction::Close)];
    };
    let is_unknown = matches!(task_row.view.task.status, Status::Unknown(_));
    let mut items = vec![item(
        'w',
        if is_unknown { "wait" } else { "do nothing" },
        MenuAction::Close,
    )];
    let mut look = item(
        'l',
        "look for it on the server",
        MenuAction::Request(vec![SessionRequest::Resume(id.clone())]),
    );
    let task = &task_row.view.task;
    let has_cursor = task
        .attempt()
        .is_some_and(|attempt| attempt.cursors.newest.is_some());
    if is_unknown && !task.resumability.checkpoint && !has_cursor {
        look.why_not = Some("it has no event id and no checkpoint".to_owned());
    }
    // A failed call got its response, so the server has nothing left to look up.
    if task.status != Status::Failed {
        items.push(look);
    }
    items.push(item(
        'a',
        "run again with the same arguments",
        MenuAction::RunAgain(id.clone()),
    ));
    if is_unknown {
        items.push(item(
            'x',
            "cancel the old request",
            MenuAction::Request(vec![SessionRequest::Cancel(id.clone())]),
        ));
        items.push(item(
            'm',
            "mark as lost",
            MenuAction::Request(vec![SessionRequest::GiveUp(id.clone())]),
        ));
    }
    items.push(item(
        'f',
        format!(
            "remove it from the list ({} restores it)",
            state.key(Action::Undo)
        ),
        MenuAction::Forget(id.clone()),
    ));
    if state.setup.readonly {
        for item in items.iter_mut().skip(1) {
            item.why_not = Some("read only".to_owned());
        }
    }
    items
}

pub(super) fn copy_items(state: &State, id: &TaskId) -> Vec<MenuItem> {
    let Some(task_row) = state.task(id) else {
        return vec![item('c', "close", MenuAction::Close)];
    };
    let task = &task_row.view.task;
    let attach = format!("longhaul attach {id}{}", state.setup.flags);
    let mut items = vec![
        item('i', format!("id: {id}"), MenuAction::Copy(id.to_string())),
        item('a', format!("command: {attach}"), MenuAction::Copy(attach)),
        item(
            'n',
            "command that runs it again",
            MenuAction::Copy(command(
                state,
                task.server.as_str(),
                &task.tool,
                &serde_json::from_str(&task.arguments).unwrap_or_default(),
                task.name.as_deref(),
            )),
        ),
        item(
            'j',
            "arguments as JSON",
            MenuAction::Copy(text::clean_line(&task.arguments).into_owned()),
        ),
    ];
    let result = state
        .detail
        .results
        .get(id)
        .map(|result| &result.document)
        .filter(|document| !document.is_empty());
    let mut result_item = item('r', "result", MenuAction::Close);
    match result {
        Some(document) if document.bytes() > MAX_COPY_BYTES => {
            result_item.why_not = Some("too long for a terminal's clipboard".to_owned());
        }
        Some(document) => result_item.action = MenuAction::Copy(document.plain(usize::MAX)),
        None if task.result_bytes.is_some() => {
            result_item.why_not = Some("still loading".to_owned());
        }
        None => result_item.why_not = Some("no result".to_owned()),
    }
    items.push(result_item);
    if let Some(error) = &task.error {
        let message = text::clean_block(&error.message).into_owned();
        items.push(item('e', "error", MenuAction::Copy(message)));
    }
    // The link under the cursor.
    let here = state
        .detail
        .results
        .get(id)
        .filter(|_| state.detail.tab == Tab::Result);
    let part = here.and_then(|result| result.parts.get(result.document.part_here()?));
    if let Some(link) = part.and_then(|part| part.link.as_ref()) {
        items.push(item(
            'u',
            "URI of this link",
            MenuAction::Copy(link.full_url()),
        ));
    }
    if !state.list.marks.is_empty() {
        let ids: Vec<&str> = state.list.marks.iter().map(TaskId::as_str).collect();
        let count = u64::try_from(ids.len()).unwrap_or(u64::MAX);
        let label = match count {
            1 => "id of the marked task".to_owned(),
            _ => format!("ids of the {}", text::plural(count, "marked task")),
        };
        items.push(item('m', label, MenuAction::Copy(ids.join(" "))));
    }
    if let Some(line) = detail::curl(state, task_row) {
        items.push(item(
            'h',
            "curl command that resumes its stream",
            MenuAction::Copy(line),
        ));
    }
    items
}
