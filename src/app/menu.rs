//! Dialogs with a list of actions: their text, their items and what the items do.

use core::time::Duration;

use crate::domain::{
    LeaveImpact, Mono, ServerName, SessionRequest, SignInPage, Stamp, Status, TaskId, text,
};

use super::{
    Action, LeaveImpacts, ResultPart, SaveContent, State, Tab, View, call::command, detail,
    leave::is_viewer, select::hidden_among_marked,
};

/// Nobody reacts to a new dialog faster than this: an earlier key was meant for what lay below it. Short enough not to
/// slow down a user who knows the dialog.
const REACTION_TIME: Duration = Duration::from_millis(250);

/// Whether a key pressed now can be meant for a dialog that was first drawn at `drawn`.
pub(super) fn was_readable(drawn: Option<Mono>, now: Stamp) -> bool {
    drawn.is_some_and(|at| now.mono.since(at) >= REACTION_TIME)
}

/// The most bytes to copy to a terminal's clipboard (OSC 52); terminals refuse more.
const MAX_COPY_BYTES: usize = 1 << 20;

/// A dialog with a list of actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Menu {
    /// Quitting would end or endanger calls.
    Leave,
    /// Cancel these tasks.
    Cancel(Vec<TaskId>),
    /// The task was asked to pause but is still making progress.
    StopNow(TaskId),
    /// The task failed, or is unknown or lost.
    WhatNow(TaskId),
    /// Copy something of the task.
    Copy(TaskId),
    /// Export each task to a file.
    Export(Vec<TaskId>),
    /// Inject a fault into the demo.
    InjectFault,
    /// Import servers from other MCP clients.
    Import {
        /// A line for each file and server.
        lines: Vec<String>,
        /// How many servers are new.
        new: usize,
    },
    /// Choose a view of the list.
    Views,
    /// Approve what the configuration would send to a server or start.
    Consent {
        /// The server.
        server: ServerName,
        /// A line for each item to approve.
        lines: Vec<String>,
        /// The digest of everything to approve.
        digest: String,
        /// Whether approval starts a program.
        is_program: bool,
    },
    /// Save or open a part of a result.
    Part {
        /// The task.
        task: TaskId,
        /// The part.
        part: Box<ResultPart>,
    },
    /// Confirm that the call in the form below repeats a tool that may not be safe to repeat.
    Repeat {
        /// The server.
        server: ServerName,
        /// The tool.
        tool: String,
        /// Why the repeat needs confirmation: the rest of a sentence that starts with the server's name.
        reason: &'static str,
        /// Whether to send arguments that the schema rejects.
        is_unchecked: bool,
    },
    /// Become the driver although that ends calls; the text names them.
    Drive(String),
    /// Open the sign-in page.
    SignIn {
        /// The server.
        server: ServerName,
        /// Its page.
        page: SignInPage,
    },
}

impl Menu {
    /// Whether keys that come right after the dialog opened are ignored, because one typed by accident could do harm.
    pub(super) fn ignores_early_keys(&self) -> bool {
        !matches!(
            self,
            Self::Copy(_) | Self::Export(_) | Self::InjectFault | Self::Views | Self::Import { .. }
        )
    }
}

/// What choosing an item does.
#[derive(Clone, Debug, PartialEq)]
pub enum MenuAction {
    /// Close the dialog.
    Close,
    /// Show the full text on a page above the dialog.
    Read {
        /// The title.
        title: String,
        /// The lines.
        lines: Vec<String>,
    },
    /// Send requests to the engine.
    Request(Vec<SessionRequest>),
    /// Copy this text.
    Copy(String),
    /// Inject this fault.
    InjectFault(String),
    /// Show the list in this view.
    ShowView(View),
    /// Import the servers that were found.
    ImportServers,
    /// Approve what the dialog showed.
    Approve {
        /// The server.
        server: ServerName,
        /// The digest of what was shown.
        digest: String,
    },
    /// Open this page in the browser.
    OpenPage(String),
    /// Ask for the path to save to.
    SaveAs {
        /// The tasks.
        tasks: Vec<TaskId>,
        /// What to save.
        what: SaveContent,
        /// The suggested name of the file, or of the directory for several tasks.
        name: String,
    },
    /// Open a part of a result in the desktop's viewer.
    OpenPart {
        /// The task.
        task: TaskId,
        /// The index of the part.
        part: usize,
    },
    /// Open a call form with the task's arguments.
    RunAgain(TaskId),
    /// Send the call in the form below.
    Repeat {
        /// Send it even if the schema rejects the arguments.
        is_unchecked: bool,
    },
    /// Forget the task.
    Forget(TaskId),
    /// Quit now.
    Leave,
    /// Quit once no call is left that quitting would end.
    LeaveOnceSafe,
    /// Cancel everything, then quit.
    CancelAllAndLeave,
}

/// An item of a dialog.
#[derive(Clone, Debug, PartialEq)]
pub struct MenuItem {
    /// The key that chooses it.
    pub key: char,
    /// Its label.
    pub label: String,
    /// Why it is disabled.
    pub why_not: Option<String>,
    /// What it does.
    pub action: MenuAction,
}

fn item(key: char, label: impl Into<String>, action: MenuAction) -> MenuItem {
    MenuItem {
        key,
        label: label.into(),
        why_not: None,
        action,
    }
}

/// A line above the items: a label that stands out, and a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyLine {
    /// `DIES`, `LIKELY`, `PAUSES` or `SAFE`; empty for plain text.
    pub label: &'static str,
    /// The text.
    pub text: String,
}

fn body_line(text: impl Into<String>) -> BodyLine {
    BodyLine {
        label: "",
        text: text.into(),
    }
}

fn name_of(state: &State, id: &TaskId) -> String {
    state.task(id).map_or_else(
        || id.to_string(),
        |task_row| {
            let (title, argument) = state.label(task_row);
            let argument = argument.map_or(String::new(), |(key, value)| format!(" {key}={value}"));
            let server = text::clean_line(task_row.view.task.server.as_str()).into_owned();
            format!("{id} {title}{argument} on {server}")
        },
    )
}

/// The title of a dialog.
pub fn title(menu: &Menu) -> String {
    match menu {
        Menu::Leave => "Leave?".to_owned(),
        Menu::Cancel(tasks) if tasks.len() == 1 => "Cancel?".to_owned(),
        Menu::Cancel(tasks) => format!("Cancel {} tasks?", tasks.len()),
        Menu::StopNow(_) => "Still running".to_owned(),
        Menu::WhatNow(id) => format!("What now? {id}"),
        Menu::Copy(id) => format!("Copy {id}"),
        Menu::Export(tasks) => match tasks.as_slice() {
            [id] => format!("Export {id}"),
            tasks => format!("Export {} tasks", tasks.len()),
        },
        Menu::Part { task, part } => match part.link {
            Some(_) => format!("Link in {task}"),
            None => format!("Part {} of {task}", part.number + 1),
        },
        Menu::InjectFault => "Inject a fault".to_owned(),
        Menu::Views => "Views".to_owned(),
        Menu::Import { .. } => "Import servers?".to_owned(),
        Menu::Consent {
            server, is_program, ..
        } => {
            let server = text::clean_line(server.as_str());
            if *is_program {
                format!("Start {server}?")
            } else {
                format!("Send this to {server}?")
            }
        }
        Menu::Repeat { .. } => "Run it again?".to_owned(),
        Menu::Drive(_) => "Drive from here?".to_owned(),
        Menu::SignIn { server, .. } => format!("Sign in to {}?", text::clean_line(server.as_str())),
    }
}

/// Tasks to list; the others are counted.
const MAX_LISTED: usize = 6;

/// The text above the items of a dialog.
pub fn body(state: &State, menu: &Menu, now: Stamp) -> Vec<BodyLine> {
    match menu {
        Menu::Leave => {
            let impacts = LeaveImpacts::of(state);
            let mut lines = Vec::new();
            for (label, part) in [
                ("DIES", &impacts.dies),
                ("LIKELY", &impacts.likely),
                ("PAUSES", &impacts.pauses),
                ("SAFE", &impacts.safe),
            ] {
                for (id, impact) in part.iter().take(MAX_LISTED) {
                    let until = match impact {
                        LeaveImpact::Likely {
                            until: Some(at), ..
                        } => format!(" until about {}", state.clock_minutes(*at)),
                        _ => String::new(),
                    };
                    lines.push(BodyLine {
                        label,
                        text: format!(
                            "{}{until}: {}",
                            name_of(state, id),
                            text::clean_line(impact.why())
                        ),
                    });
                }
                let more = part.len().saturating_sub(MAX_LISTED);
                if more > 0 {
                    lines.push(BodyLine {
                        label,
                        text: format!("and {more} more"),
                    });
                }
            }
            lines
        }
        Menu::Cancel(tasks) => {
            let mut lines: Vec<BodyLine> = tasks
                .iter()
                .take(MAX_LISTED)
                .map(|id| body_line(name_of(state, id)))
                .collect();
            let more = tasks.len().saturating_sub(MAX_LISTED);
            if more > 0 {
                lines.push(body_line(format!("and {more} more")));
            }
            let hidden = hidden_among_marked(state, tasks);
            if hidden > 0 {
                lines.push(body_line(format!("{hidden} of them hidden")));
            }
            let ended = state.list.marks.len().saturating_sub(tasks.len());
            if ended > 0 {
                let message = format!("{ended} more marked tasks have ended and stay as they are");
                lines.push(body_line(message));
            }
            let has_checkpoint = tasks
                .iter()
                .filter_map(|id| state.task(id))
                .all(|task_row| task_row.view.task.resumability.checkpoint);
            lines.push(body_line(if has_checkpoint {
                "The server will be asked to stop. The checkpoint is kept there."
            } else {
                "The server will be asked to stop. Work already done is not undone."
            }));
            lines
        }
        Menu::StopNow(id) => {
            let age = state
                .task(id)
                .and_then(|task_row| task_row.view.task.control)
                .map_or(String::new(), |asked| {
                    format!(" {} ago", text::span(now.wall.since(asked.at)))
                });
            vec![
                body_line(name_of(state, id)),
                body_line(format!(
                    "Pause requested{age}; the server is still making progress."
                )),
            ]
        }
        Menu::WhatNow(id) => {
            let Some(task_row) = state.task(id) else {
                return vec![body_line("This task no longer exists.")];
            };
            let task = &task_row.view.task;
            let mut lines = vec![body_line(name_of(state, id))];
            let label = task.status.label();
            match task.why() {
                Some(why) => {
                    let line = text::clean_line(why.lines().next().unwrap_or_default());
                    lines.push(body_line(format!(
                        "{label}: {}.",
                        line.trim_end_matches('.')
                    )));
                }
                None => lines.push(body_line(format!("Status: {label}."))),
            }
            if let Some(progress) = &task.progress {
                lines.push(body_line(format!(
                    "Last progress: {}{}.",
                    text::amount(progress.value),
                    progress.total.map_or(String::new(), |total| format!(
                        " of {}",
                        text::amount(total)
                    ))
                )));
            }
            lines
        }
        Menu::Copy(_) => vec![body_line(
            "Uses the terminal's clipboard (OSC 52), if it has one.",
        )],
        Menu::Export(tasks) => {
            let flags = &state.setup.flags;
            let id = tasks.first().map_or("ID", TaskId::as_str);
            let mut lines = vec![
                body_line("A record for bug reports. No secrets; text is replaced by its size."),
                body_line(format!(
                    "To include the text: longhaul export {id}{flags} --with-content"
                )),
            ];
            if tasks.len() > 1 {
                lines.insert(0, body_line("Each marked task gets its own file."));
            }
            let hidden = hidden_among_marked(state, tasks);
            if hidden > 0 && tasks.len() > 1 {
                lines.insert(1, body_line(format!("{hidden} of them hidden")));
            }
            lines
        }
        Menu::Repeat {
            server,
            tool,
            reason,
            ..
        } => vec![
            body_line(text::clean_line(&format!("{tool} on {server}"))),
            body_line(text::clean_line(&format!("{server} {reason}."))),
        ],
        Menu::Drive(message) => vec![
            body_line(text::clean_line(message)),
            body_line("Everything else continues."),
        ],
        Menu::InjectFault => vec![body_line(
            "Breaks the demo server or its connection on purpose.",
        )],
        Menu::Part { part, .. } => part_lines(state, part),
        Menu::SignIn { page, .. } => {
            let host = text::clean_line(&page.host);
            let mut lines = vec![body_line(format!("You sign in on a page at {host}."))];
            // On separate lines, so that a long host name doesn't push them out of view.
            lines.extend(
                page.other_parties
                    .iter()
                    .map(|who| body_line(text::clean_line(who))),
            );
            lines.push(body_line("longhaul waits 15 minutes for the result."));
            lines
        }
        Menu::Views => {
            let key = state.key(Action::Palette);
            vec![body_line(format!(
                "To save the current view: {key} save-view NAME"
            ))]
        }
        Menu::Consent {
            lines, is_program, ..
        } => {
            let first = body_line(if *is_program {
                "It runs with your permissions. It has not been started yet."
            } else {
                "It was imported, so nothing has been sent yet."
            });
            let last = body_line("Your approval holds until any of this changes.");
            let lines = lines.iter().map(|line| body_line(text::clean_line(line)));
            std::iter::once(first).chain(lines).chain([last]).collect()
        }
        Menu::Import { lines, .. } => {
            let first = body_line("This contacts no server and starts no program.");
            std::iter::once(first)
                .chain(lines.iter().map(|line| body_line(text::clean_line(line))))
                .collect()
        }
    }
}

/// Whether a dialog with these lines fits on the screen, by a conservative estimate of how they wrap.
fn fits(state: &State, lines: &[String]) -> bool {
    let (columns, rows) = state.size;
    let width = usize::from(columns.min(80)).saturating_sub(10).max(1);
    let taken = lines.iter().map(|line| {
        let columns = text::width(&text::clean_line(line));
        if columns <= width {
            1
        } else {
            1 + columns.div_ceil(width.div_ceil(2))
        }
    });
    // The other rows: two lines of our own text, the items, the frame, and the header and footer of the screen.
    taken.sum::<usize>() + 12 <= usize::from(rows)
}

/// The default view, then each named view by its number.
fn view_items(state: &State) -> Vec<MenuItem> {
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

fn part_lines(state: &State, part: &ResultPart) -> Vec<BodyLine> {
    let mut lines = vec![body_line(part.description.clone())];
    if let Some(link) = &part.link {
        if link.can_open {
            lines.push(body_line(format!("Opens a page at {}.", link.host)));
        }
        lines.extend(link.warnings.iter().cloned().map(body_line));
    } else if let (None, Some(viewer)) = (&part.why_not, &state.setup.viewer) {
        lines.push(body_line(format!(
            "Writes a private copy and runs: {viewer} FILE.{}",
            part.extension
        )));
        lines.push(body_line("The copy is deleted when longhaul exits."));
    }
    lines
}

fn part_items(state: &State, task: &TaskId, part: &ResultPart) -> Vec<MenuItem> {
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

fn recovery_items(state: &State, id: &TaskId) -> Vec<MenuItem> {
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

fn copy_items(state: &State, id: &TaskId) -> Vec<MenuItem> {
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
