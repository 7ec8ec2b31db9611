//! Choices over the screen: what can be chosen, what it does, and what has to be known before.

use core::time::Duration;

use crate::domain::{
    LeaveImpact, Mono, ServerName, SessionRequest, SignInPage, Stamp, Status, TaskId, text,
};

use super::{
    Action, Part, Prices, Saved, State, Tab, View, call::command, detail, leave::is_viewer,
    select::hidden_of_marked,
};

/// Nobody reacts faster than this to what a screen shows: a key that comes sooner after a dialog was drawn was meant for
/// what lay below it. Whoever knows the dialog and types on in one go is hardly held up.
const REFLEX: Duration = Duration::from_millis(250);

/// Whether a key that comes now can have been meant for a dialog that was first drawn then.
pub(super) fn can_be_meant(drawn: Option<Mono>, now: Stamp) -> bool {
    drawn.is_some_and(|at| now.mono.since(at) >= REFLEX)
}

/// No terminal takes more than this into its clipboard; what is longer is not laid out for it.
const COPIED: usize = 1 << 20;

/// A choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Menu {
    /// Leaving would cost something.
    Leave,
    /// Cancel these.
    Cancel(Vec<TaskId>),
    /// It was asked to pause and still moves.
    StopNow(TaskId),
    /// It is unknown or lost.
    WhatNow(TaskId),
    /// Copy something of it.
    Copy(TaskId),
    /// Write what happened to them to files, one each.
    Export(Vec<TaskId>),
    /// Break something of the demo.
    Break,
    /// Take over the servers that other programs know.
    Import {
        /// A line for each file and server.
        lines: Vec<String>,
        /// How many are new here.
        new: usize,
    },
    /// Show the list in one of the views.
    Views,
    /// Agree to what the configuration would send to a server, or start as one.
    Consent {
        /// Which.
        server: ServerName,
        /// What goes where, or what is started.
        lines: Vec<String>,
        /// The digest of all of it.
        digest: String,
        /// Whether a program would be started.
        is_program: bool,
    },
    /// Save or open a part of a result.
    Part {
        /// Whose result.
        task: TaskId,
        /// The part.
        part: Box<Part>,
    },
    /// The call in the form below repeats what may do harm.
    Repeat {
        /// Where.
        server: ServerName,
        /// What.
        tool: String,
        /// Why it is asked for, in words that go on after the name of the server.
        doubt: &'static str,
        /// Whether its arguments go out unchecked.
        is_unchecked: bool,
    },
    /// Drive from here, which would end what these words name.
    Drive(String),
    /// Open the page of a sign-in.
    SignIn {
        /// Where to.
        server: ServerName,
        /// Its page.
        page: SignInPage,
    },
}

impl Menu {
    /// Whether a key typed by reflex would do harm.
    pub(super) fn is_grave(&self) -> bool {
        !matches!(
            self,
            Self::Copy(_) | Self::Export(_) | Self::Break | Self::Views | Self::Import { .. }
        )
    }
}

/// What choosing an item does.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Nothing.
    Close,
    /// Show what the choice is about as a page above it.
    Read {
        /// What it is.
        title: String,
        /// Its lines.
        lines: Vec<String>,
    },
    /// Ask the engine.
    Ask(Vec<SessionRequest>),
    /// Copy this.
    Copy(String),
    /// Break this.
    Break(String),
    /// Show the list so.
    Show(View),
    /// Take the servers over that were found.
    TakeServers,
    /// Let the configuration do for this server what was shown.
    Agree {
        /// Which.
        server: ServerName,
        /// The digest of what was shown.
        digest: String,
    },
    /// Open this page in the browser.
    OpenPage(String),
    /// Ask for a file to save something of a task to, or for a directory for the files of several.
    SaveAs {
        /// Of which.
        tasks: Vec<TaskId>,
        /// What of it.
        what: Saved,
        /// A name for the file, or for the directory.
        name: String,
    },
    /// Give a part of a result to the program that opens files.
    OpenPart {
        /// Whose result.
        task: TaskId,
        /// Which part, from 0.
        part: usize,
    },
    /// Open the form with its arguments.
    RunAgain(TaskId),
    /// Send the repeat in the form below.
    Repeat {
        /// Whatever the schema says of its arguments.
        is_unchecked: bool,
    },
    /// Forget it.
    Forget(TaskId),
    /// Leave now.
    Leave,
    /// Leave once nothing that would die is left.
    LeaveOnceSafe,
    /// Cancel everything, then leave.
    CancelAllAndLeave,
}

/// An item of a choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Its key.
    pub key: char,
    /// What it says.
    pub label: String,
    /// Why it cannot be chosen now.
    pub why_not: Option<String>,
    /// What it does.
    pub act: Act,
}

fn item(key: char, label: impl Into<String>, act: Act) -> Item {
    Item {
        key,
        label: label.into(),
        why_not: None,
        act,
    }
}

/// A line above the items: a word that stands out, and what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// `DIES`, `LIKELY`, `SAFE`, or nothing.
    pub word: &'static str,
    /// In words.
    pub text: String,
}

fn told(text: impl Into<String>) -> Told {
    Told {
        word: "",
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

/// The title of a choice.
pub fn title(menu: &Menu) -> String {
    match menu {
        Menu::Leave => "Leave?".to_owned(),
        Menu::Cancel(tasks) if tasks.len() == 1 => "Cancel?".to_owned(),
        Menu::Cancel(tasks) => format!("Cancel {} tasks?", tasks.len()),
        Menu::StopNow(_) => "Still moving".to_owned(),
        Menu::WhatNow(id) => format!("What now? {id}"),
        Menu::Copy(id) => format!("Copy {id}"),
        Menu::Export(tasks) => match tasks.as_slice() {
            [id] => format!("Export {id}"),
            tasks => format!("Export {} tasks", tasks.len()),
        },
        Menu::Part { task, part } => match part.link {
            Some(_) => format!("A link of {task}"),
            None => format!("Part {} of {task}", part.number + 1),
        },
        Menu::Break => "Break something".to_owned(),
        Menu::Views => "Views".to_owned(),
        Menu::Import { .. } => "Import servers?".to_owned(),
        Menu::Consent {
            server, is_program, ..
        } => {
            let server = text::clean_line(server.as_str());
            if *is_program {
                format!("Start this for {server}?")
            } else {
                format!("Send this to {server}?")
            }
        }
        Menu::Repeat { .. } => "Run it again?".to_owned(),
        Menu::Drive(_) => "Drive from here?".to_owned(),
        Menu::SignIn { server, .. } => format!("Sign in to {}?", text::clean_line(server.as_str())),
    }
}

/// Tasks listed one by one; more of them are counted.
const LISTED: usize = 6;

/// What has to be known before choosing.
pub fn body(state: &State, menu: &Menu, now: Stamp) -> Vec<Told> {
    match menu {
        Menu::Leave => {
            let prices = Prices::of(state);
            let mut lines = Vec::new();
            for (word, part) in [
                ("DIES", &prices.dies),
                ("LIKELY", &prices.likely),
                ("PAUSES", &prices.pauses),
                ("SAFE", &prices.safe),
            ] {
                for (id, price) in part.iter().take(LISTED) {
                    let until = match price {
                        LeaveImpact::Likely {
                            until: Some(at), ..
                        } => format!(" until about {}", state.clock_minutes(*at)),
                        _ => String::new(),
                    };
                    lines.push(Told {
                        word,
                        text: format!(
                            "{}{until}: {}",
                            name_of(state, id),
                            text::clean_line(price.why())
                        ),
                    });
                }
                let more = part.len().saturating_sub(LISTED);
                if more > 0 {
                    lines.push(Told {
                        word,
                        text: format!("and {more} more"),
                    });
                }
            }
            lines
        }
        Menu::Cancel(tasks) => {
            let mut lines: Vec<Told> = tasks
                .iter()
                .take(LISTED)
                .map(|id| told(name_of(state, id)))
                .collect();
            let more = tasks.len().saturating_sub(LISTED);
            if more > 0 {
                lines.push(told(format!("and {more} more")));
            }
            let hidden = hidden_of_marked(state, tasks);
            if hidden > 0 {
                lines.push(told(format!("{hidden} of them are not shown at present")));
            }
            let ended = state.marks.len().saturating_sub(tasks.len());
            if ended > 0 {
                let words = format!("{ended} more of the marked have ended and stay as they are");
                lines.push(told(words));
            }
            let has_checkpoint = tasks
                .iter()
                .filter_map(|id| state.task(id))
                .all(|task_row| task_row.view.task.resumability.checkpoint);
            lines.push(told(if has_checkpoint {
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
                told(name_of(state, id)),
                told(format!("Pausing was asked{age}; the server still moves.")),
            ]
        }
        Menu::WhatNow(id) => {
            let Some(task_row) = state.task(id) else {
                return vec![told("It is gone.")];
            };
            let task = &task_row.view.task;
            let mut lines = vec![told(name_of(state, id))];
            let word = task.status.label();
            match task.why() {
                Some(why) => {
                    let line = text::clean_line(why.lines().next().unwrap_or_default());
                    lines.push(told(format!("{word}: {}.", line.trim_end_matches('.'))));
                }
                None => lines.push(told(format!("It is {word} now."))),
            }
            if let Some(progress) = &task.progress {
                lines.push(told(format!(
                    "Last seen at {}{}.",
                    text::amount(progress.value),
                    progress.total.map_or(String::new(), |total| format!(
                        " of {}",
                        text::amount(total)
                    ))
                )));
            }
            lines
        }
        Menu::Copy(_) => vec![told("Goes to the terminal (OSC 52); it may refuse.")],
        Menu::Export(tasks) => {
            let flags = &state.setup.flags;
            let id = tasks.first().map_or("ID", TaskId::as_str);
            let mut lines = vec![
                told(
                    "What happened to it, for a bug report: no secrets, and of what people and servers wrote the size.",
                ),
                told(format!(
                    "longhaul export {id}{flags} --with-content has that too."
                )),
            ];
            if tasks.len() > 1 {
                lines.insert(0, told("Each of the marked goes to a file of its own."));
            }
            let hidden = hidden_of_marked(state, tasks);
            if hidden > 0 && tasks.len() > 1 {
                lines.insert(
                    1,
                    told(format!("{hidden} of them are not shown at present")),
                );
            }
            lines
        }
        Menu::Repeat {
            server,
            tool,
            doubt,
            ..
        } => vec![
            told(text::clean_line(&format!("{tool} on {server}"))),
            told(text::clean_line(&format!("{server} {doubt}."))),
        ],
        Menu::Drive(words) => vec![
            told(text::clean_line(words)),
            told("Everything else continues."),
        ],
        Menu::Break => vec![told("The demo server and the way to it, on purpose.")],
        Menu::Part { part, .. } => about_part(state, part),
        Menu::SignIn { page, .. } => {
            let host = text::clean_line(&page.host);
            let mut lines = vec![told(format!("A page at {host} asks you."))];
            // On lines of their own, so that a long host does not hide them.
            lines.extend(
                page.other_parties
                    .iter()
                    .map(|who| told(text::clean_line(who))),
            );
            lines.push(told("longhaul waits here for its answer, 15 minutes."));
            lines
        }
        Menu::Views => {
            let key = state.key(Action::Palette);
            vec![told(format!(
                "{key} save-view NAME keeps what is shown now."
            ))]
        }
        Menu::Consent {
            lines, is_program, ..
        } => {
            let first = told(if *is_program {
                "It would have your rights, and was not started yet."
            } else {
                "It came by import, so nothing was sent yet."
            });
            let last = told("A yes holds until anything of that changes.");
            let lines = lines.iter().map(|line| told(text::clean_line(line)));
            std::iter::once(first).chain(lines).chain([last]).collect()
        }
        Menu::Import { lines, .. } => {
            let first = told("Nobody is contacted and nothing is started.");
            std::iter::once(first)
                .chain(lines.iter().map(|line| told(text::clean_line(line))))
                .collect()
        }
    }
}

/// Whether a dialog of these lines is seen whole, by a careful guess at how they are wrapped.
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
    // Beside them stand two lines of ours, the choice, the frame and the strips of the screen.
    taken.sum::<usize>() + 12 <= usize::from(rows)
}

/// Everything as it is at first, then each view by its number.
fn views(state: &State) -> Vec<Item> {
    let all = item('0', "everything", Act::Show(View::default()));
    let views = state.setup.views.iter().zip('1'..='9');
    let views = views.map(|(view, key)| {
        let label = format!("{}: {}", view.name, view.message());
        item(key, label, Act::Show(view.clone()))
    });
    std::iter::once(all).chain(views).collect()
}

/// What can be chosen; the first item is chosen at first and does no harm.
pub fn items(state: &State, menu: &Menu) -> Vec<Item> {
    match menu {
        Menu::Leave => {
            let prices = Prices::of(state);
            let wait = item(
                'w',
                format!(
                    "leave once the dying {} ended",
                    if prices.dies.len() == 1 {
                        "one has"
                    } else {
                        "ones have"
                    }
                ),
                Act::LeaveOnceSafe,
            );
            let cancel = item('c', "cancel all and leave", Act::CancelAllAndLeave);
            let cancel = Item {
                why_not: if state.setup.readonly {
                    Some("read only".to_owned())
                } else if is_viewer(state) {
                    Some("another process drives".to_owned())
                } else {
                    None
                },
                ..cancel
            };
            let mut items = vec![item('s', "stay", Act::Close)];
            if !prices.dies.is_empty() {
                items.push(wait);
            }
            items.extend([item('l', "leave", Act::Leave), cancel]);
            items
        }
        Menu::Cancel(tasks) => vec![
            item('n', "no, keep it running", Act::Close),
            item(
                'y',
                if tasks.len() == 1 {
                    "yes, cancel it".to_owned()
                } else {
                    format!("yes, cancel all {}", tasks.len())
                },
                Act::Ask(tasks.iter().cloned().map(SessionRequest::Cancel).collect()),
            ),
        ],
        Menu::StopNow(id) => vec![
            item('w', "wait for the server", Act::Close),
            item(
                's',
                "stop it now, the checkpoint stays",
                Act::Ask(vec![SessionRequest::Cancel(id.clone())]),
            ),
        ],
        Menu::WhatNow(id) => what_now(state, id),
        Menu::Copy(id) => copies(state, id),
        Menu::Export(tasks) => {
            let save = |what, ending: &str| Act::SaveAs {
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
                    "as a page with its timeline",
                    save(Saved::Page, "html"),
                ),
                item('j', "as JSON", save(Saved::Json, "json")),
                item('n', "no, leave it", Act::Close),
            ]
        }
        Menu::Part { task, part } => of_part(state, task, part),
        Menu::SignIn { page, .. } => vec![
            item(
                'o',
                "open it in the browser",
                Act::OpenPage(page.url.clone()),
            ),
            item('y', "copy its URL", Act::Copy(page.url.clone())),
            item('l', "later", Act::Close),
        ],
        Menu::Views => views(state),
        Menu::Consent {
            server,
            lines,
            digest,
            is_program,
        } => {
            let (no, yes) = if *is_program {
                ("no, start nothing", "yes, it may be started")
            } else {
                ("no, send nothing", "yes, these may go there")
            };
            let agree = Act::Agree {
                server: server.clone(),
                digest: digest.clone(),
            };
            let command = if *is_program { "approve" } else { "consent" };
            // Nobody agrees to what he does not see.
            let why_not = (!fits(state, lines)).then(|| {
                let server = text::shell_word(server.as_str());
                format!("too long to be seen here; longhaul servers {command} {server}")
            });
            let yes = item('y', yes, agree);
            vec![item('n', no, Act::Close), Item { why_not, ..yes }]
        }
        Menu::Drive(_) => vec![
            item('n', "no, let it drive", Act::Close),
            item(
                'y',
                "yes, drive from here whatever ends",
                Act::Ask(vec![SessionRequest::HandOver { is_forced: true }]),
            ),
        ],
        Menu::Repeat { is_unchecked, .. } => vec![
            item('n', "no, back to the form", Act::Close),
            item(
                'y',
                "yes, run it again",
                Act::Repeat {
                    is_unchecked: *is_unchecked,
                },
            ),
        ],
        Menu::Import { lines, new } => {
            let count = text::plural(u64::try_from(*new).unwrap_or(u64::MAX), "server");
            let take = item('t', format!("take {count} over"), Act::TakeServers);
            let why_not = (*new == 0).then(|| "none is new here".to_owned());
            let read = Act::Read {
                title: "What was found".to_owned(),
                lines: lines.clone(),
            };
            let read = (!fits(state, lines)).then(|| item('r', "read all of it", read));
            [item('n', "not now", Act::Close), Item { why_not, ..take }]
                .into_iter()
                .chain(read)
                .collect()
        }
        Menu::Break => vec![
            item(
                'c',
                "cut the network for 5 s",
                Act::Break("cut 5".to_owned()),
            ),
            item('r', "restart the server", Act::Break("restart".to_owned())),
            item(
                's',
                "stall: keep open, say nothing",
                Act::Break("stall".to_owned()),
            ),
            item(
                'd',
                "drop the connection after the next event",
                Act::Break("drop".to_owned()),
            ),
            item(
                'u',
                "duplicate events on replay",
                Act::Break("duplicate".to_owned()),
            ),
            item('f', "forget the session", Act::Break("forget".to_owned())),
            item(
                'p',
                "fail polls of tasks for 5 s",
                Act::Break("polls".to_owned()),
            ),
            item(
                'h',
                "never answer the next poll",
                Act::Break("hang".to_owned()),
            ),
        ],
    }
}

/// What has to be known before a part of a result is given to another program.
fn about_part(state: &State, part: &Part) -> Vec<Told> {
    let mut lines = vec![told(part.words.clone())];
    if let Some(link) = &part.link {
        if link.can_open {
            lines.push(told(format!("Opening it asks {}.", link.host)));
        }
        lines.extend(link.warnings.iter().cloned().map(told));
    } else if let (None, Some(viewer)) = (&part.why_not, &state.setup.viewer) {
        lines.push(told(format!(
            "Opening it writes a private copy and runs: {viewer} FILE.{}",
            part.extension
        )));
        lines.push(told("The copy goes when longhaul ends."));
    }
    lines
}

fn of_part(state: &State, task: &TaskId, part: &Part) -> Vec<Item> {
    let leave = item('n', "no, leave it", Act::Close);
    if let Some(link) = &part.link {
        let open = item(
            'o',
            format!("open {} in the browser", link.host),
            Act::OpenPage(link.full_url()),
        );
        let open = Item {
            why_not: (!link.can_open).then(|| link.warnings.first().cloned().unwrap_or_default()),
            ..open
        };
        let copy = item('y', "copy its URI", Act::Copy(link.full_url()));
        return vec![copy, open, leave];
    }
    let save = Act::SaveAs {
        tasks: vec![task.clone()],
        what: Saved::Part(part.number),
        name: format!("{task}-{}.{}", part.number + 1, part.extension),
    };
    let open = Act::OpenPart {
        task: task.clone(),
        part: part.number,
    };
    let why_not = part.why_not.clone().or_else(|| {
        let is_there = state.setup.viewer.is_some();
        (!is_there).then(|| "there is no desktop here to open it on".to_owned())
    });
    let label = match &state.setup.viewer {
        Some(viewer) => format!("open it with {viewer}"),
        None => "open it".to_owned(),
    };
    vec![
        item('s', "save it to a file", save),
        Item {
            why_not,
            ..item('o', label, open)
        },
        leave,
    ]
}

fn what_now(state: &State, id: &TaskId) -> Vec<Item> {
    let Some(task_row) = state.task(id) else {
        return vec![item('c', "close", Act::Close)];
    };
    let is_unknown = matches!(task_row.view.task.status, Status::Unknown(_));
    let mut items = vec![item(
        'w',
        if is_unknown {
            "wait"
        } else {
            "leave it as it is"
        },
        Act::Close,
    )];
    let mut look = item(
        'l',
        "look for it on the server",
        Act::Ask(vec![SessionRequest::Resume(id.clone())]),
    );
    let task = &task_row.view.task;
    let has_cursor = task
        .attempt()
        .is_some_and(|attempt| attempt.cursors.newest.is_some());
    if is_unknown && !task.resumability.checkpoint && !has_cursor {
        look.why_not = Some("no event id and no checkpoint to find it by".to_owned());
    }
    // What failed was answered: there is nothing to look for.
    if task.status != Status::Failed {
        items.push(look);
    }
    items.push(item(
        'a',
        "run again, with the arguments filled in",
        Act::RunAgain(id.clone()),
    ));
    if is_unknown {
        items.push(item(
            'x',
            "cancel the old request",
            Act::Ask(vec![SessionRequest::Cancel(id.clone())]),
        ));
        items.push(item(
            'm',
            "mark as lost",
            Act::Ask(vec![SessionRequest::GiveUp(id.clone())]),
        ));
    }
    items.push(item(
        'f',
        format!(
            "forget it here ({} brings it back)",
            state.key(Action::Undo)
        ),
        Act::Forget(id.clone()),
    ));
    if state.setup.readonly {
        for item in items.iter_mut().skip(1) {
            item.why_not = Some("read only".to_owned());
        }
    }
    items
}

fn copies(state: &State, id: &TaskId) -> Vec<Item> {
    let Some(task_row) = state.task(id) else {
        return vec![item('c', "close", Act::Close)];
    };
    let task = &task_row.view.task;
    let attach = format!("longhaul attach {id}{}", state.setup.flags);
    let mut items = vec![
        item('i', format!("id: {id}"), Act::Copy(id.to_string())),
        item('a', format!("command: {attach}"), Act::Copy(attach)),
        item(
            'n',
            "command that calls it again",
            Act::Copy(command(
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
            Act::Copy(text::clean_line(&task.arguments).into_owned()),
        ),
    ];
    let result = state
        .results
        .get(id)
        .map(|result| &result.document)
        .filter(|document| !document.is_empty());
    let mut of_result = item('r', "result", Act::Close);
    match result {
        Some(document) if document.bytes() > COPIED => {
            of_result.why_not = Some("it is too long for a clipboard of a terminal".to_owned());
        }
        Some(document) => of_result.act = Act::Copy(document.plain(usize::MAX)),
        None if task.result_bytes.is_some() => {
            of_result.why_not = Some("it is being read".to_owned());
        }
        None => of_result.why_not = Some("there is none".to_owned()),
    }
    items.push(of_result);
    if let Some(error) = &task.error {
        let words = text::clean_block(&error.message).into_owned();
        items.push(item('e', "error", Act::Copy(words)));
    }
    // Of what stands under the cursor, where that is a link.
    let here = state.results.get(id).filter(|_| state.tab == Tab::Result);
    let part = here.and_then(|result| result.parts.get(result.document.part_here()?));
    if let Some(link) = part.and_then(|part| part.link.as_ref()) {
        items.push(item('u', "URI of this link", Act::Copy(link.full_url())));
    }
    if !state.marks.is_empty() {
        let ids: Vec<&str> = state.marks.iter().map(TaskId::as_str).collect();
        let count = u64::try_from(ids.len()).unwrap_or(u64::MAX);
        let label = match count {
            1 => "id of the marked task".to_owned(),
            _ => format!("ids of the {}", text::plural(count, "marked task")),
        };
        items.push(item('m', label, Act::Copy(ids.join(" "))));
    }
    if let Some(line) = detail::curl(state, task_row) {
        items.push(item(
            'h',
            "request that picks it up by hand",
            Act::Copy(line),
        ));
    }
    items
}
