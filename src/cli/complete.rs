//! Shell completion, from the definition of the command line, the session file and the config.
//!
//! Must not contact a server, drive a session or change a file. Invariants: errors print nothing; a server's text is offered
//! only if it has no hostile characters, and the shell quotes it.

use std::{
    ffi::{OsStr, OsString},
    io::Write,
    path::PathBuf,
    sync::Arc,
};

use clap::{Arg, ArgMatches, Command, CommandFactory as _};
use clap_complete::{
    Shell,
    engine::{ArgValueCompleter, CompletionCandidate, complete},
    env::Shells,
};
use itertools::Itertools as _;
use serde_json::{Map, Value};

use crate::{
    cli::{
        args::{self, Cli, NAME},
        format,
    },
    config::{self, Config},
    domain::{ArgumentKind, ArgumentSpec, Elicitation, LinkRecord, Task, Tool, text, unquoted},
    store::{ListFilter, Lookup, Paths, Reader},
};

/// Set by a completion script to the name of its shell; longhaul then prints candidates instead of running.
pub(super) const VARIABLE: &str = "LONGHAUL_COMPLETE";
/// How many tasks are offered, newest first.
const MAX_TASKS: usize = 200;
/// The maximum width of a candidate's description.
const MAX_HELP_COLS: usize = 70;

/// Bash splits words at `=` and `:`. This script joins them again, and removes the prefix that bash keeps from each reply.
const BASH: &str = r#"_longhaul() {
    local rest=${COMP_LINE:0:COMP_POINT} words=() count=0 i blank word reply current prefix=
    for ((i = 0; i <= COMP_CWORD; i++)); do
        blank=${rest%%[![:space:]]*}
        rest=${rest#"$blank"}
        if ((i == COMP_CWORD)); then word=$rest; else word=${COMP_WORDS[i]}; fi
        rest=${rest#"$word"}
        if [[ -n $blank || $i -eq 0 ]]; then
            words[count++]=$word
        else
            words[count - 1]+=$word
        fi
    done
    current=${words[count - 1]}
    [[ $current == *"$2" ]] && prefix=${current%"$2"}
    COMPREPLY=()
    while IFS= read -r reply; do
        reply=${reply#"$prefix"}
        [[ -n $reply ]] && printf -v reply %q "$reply" && COMPREPLY+=("$reply")
    done < <(VARIABLE=bash longhaul -- "${words[@]}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/] ]]; then
        compopt -o nospace 2>/dev/null
    fi
    return 0
}
complete -o bashdefault -o default -F _longhaul longhaul"#;

/// Candidates that end in `=` or `/` get no trailing space.
const ZSH: &str = r#"#compdef longhaul
_longhaul() {
    local line value
    local -a whole whole_shown begun begun_shown
    for line in "${(@f)$(VARIABLE=zsh longhaul -- "${(@Q)words[1,CURRENT]}" 2>/dev/null)}"; do
        value=${line%%$'\t'*}
        [[ -n $value ]] || continue
        line=${line/$'\t'/  -- }
        if [[ $value == *[=/] ]]; then
            begun+=("$value") begun_shown+=("$line")
        else
            whole+=("$value") whole_shown+=("$line")
        fi
    done
    (( ${#whole} )) && compadd -V longhaul -l -d whole_shown -a whole
    (( ${#begun} )) && compadd -V longhaul-begun -S '' -l -d begun_shown -a begun
    (( ${#whole} + ${#begun} )) || _files
}
if [[ ${funcstack[1]} == _longhaul ]]; then
    _longhaul "$@"
else
    compdef _longhaul longhaul
fi"#;

/// The completion script for a shell.
pub(super) fn script(shell: Shell) -> String {
    match shell {
        Shell::Bash => return BASH.replace("VARIABLE", VARIABLE),
        Shell::Zsh => return ZSH.replace("VARIABLE", VARIABLE),
        _ => {}
    }
    let mut script = Vec::new();
    let shells = Shells::builtins();
    if let Some(shell) = shells.completer(&shell.to_string()) {
        // Writing to a Vec cannot fail.
        let _ = shell.write_registration(VARIABLE, NAME, NAME, NAME, &mut script);
    }
    String::from_utf8_lossy(&script).into_owned()
}

/// Prints the candidates for the last word, one per line. If the shell shows descriptions, they follow a tab.
pub(super) fn print_candidates(shell: &OsStr, args: Vec<OsString>, out: &mut dyn Write) {
    // The arguments before `--` are how the script calls us.
    let words: Vec<OsString> = args
        .into_iter()
        .skip_while(|it| it != "--")
        .skip(1)
        .collect();
    let Some(current) = words.last().cloned() else {
        return;
    };
    let is_plain = shell == "bash" || shell == "elvish";
    let candidates = candidates(words).unwrap_or_default();
    let is_option = |it: &CompletionCandidate| it.get_value().as_encoded_bytes().starts_with(b"-");
    let has_values = candidates.iter().any(|it| !is_option(it));
    let mut lines = String::new();
    for candidate in &candidates {
        // There are many options; typing a dash lists them.
        if current.is_empty() && has_values && is_option(candidate) {
            continue;
        }
        let Some(value) = candidate.get_value().to_str().filter(|it| is_clean(it)) else {
            continue;
        };
        lines.push_str(value);
        if let Some(help) = candidate.get_help().filter(|_| !is_plain) {
            let help = help.to_string();
            let help = text::clean_line(help.lines().next().unwrap_or_default()).into_owned();
            lines.push('\t');
            lines.push_str(&text::truncate(&help, MAX_HELP_COLS));
        }
        lines.push('\n');
    }
    // The shell may stop reading.
    let _ = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
}

fn is_clean(word: &str) -> bool {
    !word.is_empty() && !word.contains(text::is_hostile)
}

fn candidates(words: Vec<OsString>) -> Option<Vec<CompletionCandidate>> {
    let root = Cli::command();
    let (finder, rest) = Finder::of(&root, words);
    let finder = Arc::new(finder);
    let mut command = with_completers(args::offered(&root), "", &finder);
    let here = std::env::current_dir().ok();
    let index = rest.len().checked_sub(1)?;
    complete(&mut command, rest, index, here.as_deref()).ok()
}

/// Candidates, each with a description or an empty string.
type Candidates = Vec<(String, String)>;

/// Finds the candidates for a value, based on its text so far.
type Find = fn(&Finder, &str) -> Option<Candidates>;

/// What finds the values of an argument.
fn find_for(parent: &str, command: &str, argument: &str) -> Option<Find> {
    let find: Find = match (parent, command, argument) {
        (_, _, "server")
        | (_, "login" | "logout", "at")
        | ("servers", "remove" | "test" | "approve", "name") => |finder, _| Some(finder.servers()),
        (_, _, "session") | ("sessions", "rm", "names") => |finder, _| finder.sessions(),
        (_, "trace", "of") => |finder, _| {
            let tasks = finder.tasks().unwrap_or_default();
            Some(tasks.into_iter().chain(finder.servers()).collect())
        },
        (_, "call", "tool") => |finder, _| Some(finder.tools()),
        (_, "call" | "again", "pairs") => Finder::arguments,
        (_, "answer", "pairs") => Finder::fields,
        (_, "man", "command") => |_, _| {
            let about = |it: &Command| it.get_about().map_or(String::new(), ToString::to_string);
            let root = Cli::command();
            let all = root.get_subcommands().filter(|it| !it.is_hide_set());
            Some(
                all.map(|it| (it.get_name().to_owned(), about(it)))
                    .collect(),
            )
        },
        (_, _, "id" | "ids") => |finder, _| finder.tasks(),
        _ => return None,
    };
    Some(find)
}

/// Adds completers to the values of a command and its subcommands.
fn with_completers(command: Command, parent: &str, finder: &Arc<Finder>) -> Command {
    let name = command.get_name().to_owned();
    let with_completer = |arg: Arg| {
        let Some(find) = find_for(parent, &name, arg.get_id().as_str()) else {
            return arg;
        };
        let finder = Arc::clone(finder);
        arg.add(ArgValueCompleter::new(move |typed: &OsStr| {
            let typed = typed.to_str().unwrap_or_default();
            let found = find(&finder, typed).unwrap_or_default();
            let matching = |(value, about): (String, String)| {
                value.starts_with(typed).then(|| {
                    let about = (!about.is_empty()).then(|| about.into());
                    CompletionCandidate::new(value).help(about)
                })
            };
            found.into_iter().filter_map(matching).collect()
        }))
    };
    let command = command.mut_args(with_completer);
    command.mut_subcommands(|below| with_completers(below, &name, finder))
}

/// If a word is a global option that takes a value: its id, and the value if it is in the same word.
fn global_option<'w>(root: &Command, word: &'w str) -> Option<(String, Option<&'w str>)> {
    let mut all = root
        .get_arguments()
        .filter(|arg| arg.is_global_set() && arg.get_action().takes_values());
    let (arg, value) = if let Some(long) = word.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        (all.find(|arg| arg.get_long() == Some(name))?, value)
    } else {
        let mut letters = word.strip_prefix('-')?.chars();
        let short = letters.next()?;
        let value = Some(letters.as_str()).filter(|it| !it.is_empty());
        (all.find(|arg| arg.get_short() == Some(short))?, value)
    };
    Some((arg.get_id().to_string(), value))
}

fn config() -> Config {
    config::read(config::path().as_deref()).unwrap_or_default()
}

/// Finds candidates, based on what was typed so far.
#[derive(Debug, Default)]
struct Finder {
    servers: Vec<String>,
    session: Option<String>,
    state_dir: Option<PathBuf>,
    command: String,
    /// The arguments of the command.
    matches: Option<ArgMatches>,
}

impl Finder {
    /// Reads the words and removes global options that have a value, because clap_complete could take a session's name for
    /// a command.
    fn of(root: &Command, words: Vec<OsString>) -> (Self, Vec<OsString>) {
        let mut finder = Self::default();
        let mut rest: Vec<OsString> = Vec::new();
        let last = words.len().saturating_sub(1);
        let mut words = words.into_iter().enumerate().peekable();
        while let Some((index, word)) = words.next() {
            let is_complete = index > 0 && index < last;
            let text = word.to_str().filter(|_| is_complete).unwrap_or_default();
            let Some((id, value)) = global_option(root, text) else {
                rest.push(word);
                continue;
            };
            let value = match value {
                Some(value) => value.to_owned(),
                // The value is being typed.
                None if index + 1 == last => {
                    rest.push(word);
                    continue;
                }
                None => match words.next() {
                    Some((_, value)) => value.to_string_lossy().into_owned(),
                    None => continue,
                },
            };
            match id.as_str() {
                "server" => finder.servers.push(value),
                "session" => finder.session = Some(value),
                "state_dir" => finder.state_dir = Some(value.into()),
                _ => {}
            }
        }
        let typed = rest.split_last().map_or(&[][..], |(_, typed)| typed);
        let matches = Cli::command().ignore_errors(true);
        if let Ok(mut matches) = matches.try_get_matches_from(typed)
            && let Some((command, below)) = matches.remove_subcommand()
        {
            (finder.command, finder.matches) = (command, Some(below));
        }
        (finder, rest)
    }

    fn sessions(&self) -> Option<Candidates> {
        let all = self.paths()?.all().ok()?.into_iter();
        let name = |paths: Paths| (paths.session.clone(), String::new());
        Some(all.map(name).collect())
    }

    /// The fields of the question that the command answers.
    fn fields(&self, typed: &str) -> Option<Candidates> {
        let task = self.task()?;
        let elicitation = Elicitation::parse(&task.open_question()?.request);
        Some(self.pairs(elicitation.fields(), &Map::new(), typed))
    }

    /// The files of the session, or `None` if there are none yet. Never creates them.
    fn paths(&self) -> Option<Paths> {
        let from_environment = || std::env::var_os(args::STATE_DIR).filter(|dir| !dir.is_empty());
        let dir = self.state_dir.clone();
        let dir = dir.or_else(|| from_environment().map(PathBuf::from));
        #[cfg(feature = "demo")]
        let own = (self.command == "demo").then(|| args::DEMO_SESSION.to_owned());
        #[cfg(not(feature = "demo"))]
        let own = None;
        let session = self.session.clone().or(own);
        let session = session.or_else(|| config().defaults.session);
        let session = session.unwrap_or_else(|| args::DEFAULT_SESSION.to_owned());
        let unopened = Paths::unopened(dir.clone(), &session).ok()?;
        let exists = unopened.sessions_dir().is_dir();
        exists.then(|| Paths::resolve(dir, &session).ok())?
    }

    fn reader(&self) -> Option<Reader> {
        let paths = self.paths().filter(|paths| paths.db().is_file())?;
        Reader::open(&paths).ok()
    }

    fn links(&self) -> Vec<LinkRecord> {
        let links = self.reader().and_then(|mut reader| reader.links().ok());
        links.unwrap_or_default()
    }

    /// The tasks that the command can act on, newest first.
    fn tasks(&self) -> Option<Candidates> {
        let is_undo =
            |it: &ArgMatches| it.try_get_one::<bool>("undo").ok().flatten() == Some(&true);
        let is_undo = self.matches.as_ref().is_some_and(is_undo);
        let filter = ListFilter {
            all: is_undo,
            limit: Some(MAX_TASKS * 10),
        };
        let tasks = self.reader()?.tasks(filter).ok()?;
        let is_applicable = |task: &&Task| match self.command.as_str() {
            "pause" | "resume" | "cancel" | "wait" => !task.status.is_settled(),
            "answer" => task.open_question().is_some(),
            "rm" if is_undo => task.forgotten_at.is_some(),
            _ => true,
        };
        let line = |task: &Task| {
            let about = format!("{}  {}", task.state_label(), format::task_title(task));
            (task.id.to_string(), about)
        };
        let tasks = tasks.iter().filter(is_applicable).take(MAX_TASKS);
        Some(tasks.map(line).collect())
    }

    fn servers(&self) -> Candidates {
        let config = config();
        let shown_url = |url: &str| crate::domain::server_url::redacted(url).into_owned();
        let configured = config.servers.iter().map(|server| {
            let url = server.url.as_deref().map_or(String::new(), shown_url);
            (server.name.to_string(), url)
        });
        let links = self.links().into_iter();
        let of_session = links.map(|link| (link.name.to_string(), shown_url(&link.url)));
        let all = configured.chain(of_session);
        all.unique_by(|(name, _)| name.clone()).collect()
    }

    /// The saved data of the named servers, else of all.
    fn selected_links(&self) -> Vec<LinkRecord> {
        let default = || config().defaults.server;
        let named = match self.servers.as_slice() {
            [] => default().into_iter().collect(),
            named => named.to_vec(),
        };
        let is_selected = |link: &LinkRecord| {
            let is_it = |it: &String| link.name.as_str() == it || link.url == *it;
            named.is_empty() || named.iter().any(is_it)
        };
        self.links().into_iter().filter(is_selected).collect()
    }

    fn tools(&self) -> Candidates {
        let links = self.selected_links().into_iter();
        let tools = links.flat_map(|link| link.tools);
        let candidate = |tool: Tool| {
            let about = tool.description.unwrap_or_default();
            let about = about.lines().find(|line| !line.trim().is_empty());
            (tool.name, about.unwrap_or_default().trim().to_owned())
        };
        let offered = tools.filter(Tool::is_offered).map(candidate);
        offered.unique_by(|(name, _)| name.clone()).collect()
    }

    /// The task that the command names.
    fn task(&self) -> Option<Task> {
        let id = self.matches.as_ref()?.try_get_one::<String>("id").ok()??;
        match self.reader()?.task(id).ok()? {
            Lookup::One(task) => Some(*task),
            _ => None,
        }
    }

    fn arguments(&self, typed: &str) -> Option<Candidates> {
        let of = |tools: Vec<Tool>, name: &str| tools.into_iter().find(|tool| tool.name == name);
        if self.command == "again" {
            let task = self.task()?;
            let link = self.links().into_iter().find(|it| it.name == task.server)?;
            let before = serde_json::from_str(&task.arguments).unwrap_or_default();
            let specs = of(link.tools, &task.tool)?.arguments();
            return Some(self.pairs(&specs, &before, typed));
        }
        let name = self
            .matches
            .as_ref()?
            .try_get_one::<String>("tool")
            .ok()??;
        let mut links = self.selected_links().into_iter();
        let tool = links.find_map(|link| of(link.tools, name))?;
        Some(self.pairs(&tool.arguments(), &Map::new(), typed))
    }

    /// `key=` for each argument that is missing, or known values once the key is typed.
    fn pairs(
        &self,
        specs: &[ArgumentSpec],
        before: &Map<String, Value>,
        typed: &str,
    ) -> Candidates {
        if let Some((key, _)) = typed.split_once('=') {
            let Some(spec) = specs.iter().find(|spec| spec.name == key) else {
                return Vec::new();
            };
            let mut values: Vec<(String, &str)> = Vec::new();
            values.extend(before.get(key).map(|value| (unquoted(value), "as before")));
            values.extend(
                spec.default
                    .as_ref()
                    .map(|value| (unquoted(value), "default")),
            );
            match &spec.kind {
                ArgumentKind::Choice(all) | ArgumentKind::Many(all) => {
                    values.extend(all.iter().map(|value| (unquoted(value), "")));
                }
                ArgumentKind::Boolean => {
                    values.extend(["true", "false"].map(|value| (value.to_owned(), "")));
                }
                _ => {}
            }
            let values = values.into_iter().unique_by(|(value, _)| value.clone());
            return values
                .map(|(value, about)| (format!("{key}={value}"), about.to_owned()))
                .collect();
        }
        let typed_keys = self.matches.as_ref().and_then(|it| {
            let pairs = it.try_get_many::<String>("pairs").ok()??;
            let key =
                |pair: &String| Some(pair.split_once('=')?.0.trim_end_matches(':').to_owned());
            Some(pairs.filter_map(key).collect::<Vec<String>>())
        });
        let typed_keys = typed_keys.unwrap_or_default();
        let missing = specs.iter().filter(|spec| !typed_keys.contains(&spec.name));
        let line = |spec: &ArgumentSpec| {
            let sign = match spec.kind {
                ArgumentKind::Json => ":=",
                _ => "=",
            };
            let about = spec.description.as_deref().unwrap_or_default();
            let about = about.lines().next().unwrap_or_default();
            let required = if spec.is_required { "required, " } else { "" };
            let about = format!("{required}{}  {about}", spec.expected());
            (format!("{}{sign}", spec.name), about.trim_end().to_owned())
        };
        let required_first = missing.sorted_by_key(|spec| !spec.is_required);
        required_first.map(line).collect()
    }
}
