//! Completion: what could stand at the cursor of a shell, from the command line's definition, the session file and the
//! configuration.
//!
//! Must not contact anybody, drive a session or change a file. Invariants: whatever goes wrong, nothing is printed; a
//! server's text is offered only where no character of it is hostile, and the shell quotes it.

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
use serde_json::{Map, Value};

use super::{
    args::{self, Cli},
    calls,
    config::{self, Config},
    manual::NAME,
};
use crate::{
    domain::{ArgumentKind, ArgumentSpec, Elicitation, LinkRecord, Task, Tool, text},
    store::{ListFilter, Lookup, Paths, Reader},
};

/// Which shell asks, in place of a command.
pub(super) const VARIABLE: &str = "LONGHAUL_COMPLETE";
/// Tasks that are offered at once, newest first.
const TASKS: usize = 200;
/// Columns of the words beside a candidate.
const ABOUT: usize = 70;

/// Bash takes a word apart at `=` and `:`; this puts it together again, and takes off what bash keeps.
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

/// Names that end in `=` or `/` go on without a space.
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

/// What makes a shell ask longhaul.
pub(super) fn script(shell: Shell) -> String {
    let own = match shell {
        Shell::Bash => Some(BASH),
        Shell::Zsh => Some(ZSH),
        _ => None,
    };
    if let Some(own) = own {
        return own.replace("VARIABLE", VARIABLE);
    }
    let mut script = Vec::new();
    let shells = Shells::builtins();
    if let Some(shell) = shells.completer(&shell.to_string()) {
        // A Vec takes everything.
        let _ = shell.write_registration(VARIABLE, NAME, NAME, NAME, &mut script);
    }
    String::from_utf8_lossy(&script).into_owned()
}

/// Prints what could stand in place of the last word, a line each, with what it is behind a tab where the shell shows that.
pub(super) fn answer(shell: &OsStr, args: Vec<OsString>, out: &mut dyn Write) {
    // What stands before the dashes is how the shell called us.
    let words: Vec<OsString> = args
        .into_iter()
        .skip_while(|it| it != "--")
        .skip(1)
        .collect();
    let Some(current) = words.last().cloned() else {
        return;
    };
    let is_plain = shell == "bash" || shell == "elvish";
    let found = candidates(words).unwrap_or_default();
    let is_option = |it: &CompletionCandidate| it.get_value().as_encoded_bytes().starts_with(b"-");
    let has_values = found.iter().any(|it| !is_option(it));
    let mut lines = String::new();
    for candidate in &found {
        // Options are many, and a dash asks for them.
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
            lines.push_str(&text::truncate(&help, ABOUT));
        }
        lines.push('\n');
    }
    // A shell that does not read on has no use for them.
    let _ = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
}

fn is_clean(word: &str) -> bool {
    !word.is_empty() && !word.contains(text::is_hostile)
}

fn candidates(words: Vec<OsString>) -> Option<Vec<CompletionCandidate>> {
    let root = Cli::command();
    let (finder, rest) = Finder::of(&root, words);
    let finder = Arc::new(finder);
    let mut command = with_values(super::manual::offered(&root), "", &finder);
    let here = std::env::current_dir().ok();
    let index = rest.len().checked_sub(1)?;
    complete(&mut command, rest, index, here.as_deref()).ok()
}

/// What a value is, where only the session and the configuration know.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Task,
    Server,
    TaskOrServer,
    Session,
    Tool,
    Argument,
    Field,
    View,
    Command,
}

fn kind(parent: &str, command: &str, argument: &str) -> Option<Kind> {
    Some(match (parent, command, argument) {
        (_, _, "server")
        | (_, "login" | "logout", "at")
        | ("servers", "remove" | "test" | "consent" | "approve", "name") => Kind::Server,
        (_, _, "session") | ("sessions", "rm", "names") => Kind::Session,
        (_, "trace", "of") => Kind::TaskOrServer,
        (_, "call" | "ls", "tool") => Kind::Tool,
        (_, "call" | "again", "pairs") => Kind::Argument,
        (_, "answer", "pairs") => Kind::Field,
        (_, "ls", "view") => Kind::View,
        (_, "help" | "man", "command") => Kind::Command,
        (_, _, "id" | "ids") => Kind::Task,
        _ => return None,
    })
}

/// The same commands, each value of which knows what it could be.
fn with_values(command: Command, parent: &str, finder: &Arc<Finder>) -> Command {
    let name = command.get_name().to_owned();
    let with_value = |arg: Arg| {
        let Some(kind) = kind(parent, &name, arg.get_id().as_str()) else {
            return arg;
        };
        let finder = Arc::clone(finder);
        arg.add(ArgValueCompleter::new(move |typed: &OsStr| {
            let typed = typed.to_str().unwrap_or_default();
            let found = finder.find(kind, typed).unwrap_or_default();
            let fits = |(value, about): (String, String)| {
                value.starts_with(typed).then(|| {
                    let about = (!about.is_empty()).then(|| about.into());
                    CompletionCandidate::new(value).help(about)
                })
            };
            found.into_iter().filter_map(fits).collect()
        }))
    };
    let command = command.mut_args(with_value);
    command.mut_subcommands(|below| with_values(below, &name, finder))
}

/// The global option with a value that a word is, and the value where it stands in the same word.
fn global<'w>(root: &Command, word: &'w str) -> Option<(String, Option<&'w str>)> {
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

/// Where to look, by what was typed so far.
#[derive(Debug, Default)]
struct Finder {
    servers: Vec<String>,
    session: Option<String>,
    state_dir: Option<PathBuf>,
    command: String,
    /// What follows the command.
    matches: Option<ArgMatches>,
}

impl Finder {
    /// Reads the words and takes the global options out that have a value: to the library, the name of a session could
    /// be that of a command.
    fn of(root: &Command, words: Vec<OsString>) -> (Self, Vec<OsString>) {
        let mut finder = Self::default();
        let mut rest: Vec<OsString> = Vec::new();
        let last = words.len().saturating_sub(1);
        let mut words = words.into_iter().enumerate().peekable();
        while let Some((at, word)) = words.next() {
            let is_before = at > 0 && at < last;
            let text = word.to_str().filter(|_| is_before).unwrap_or_default();
            let Some((id, value)) = global(root, text) else {
                rest.push(word);
                continue;
            };
            let value = match value {
                Some(value) => value.to_owned(),
                // The value is what is being typed.
                None if at + 1 == last => {
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

    /// What fits, each with what it is.
    fn find(&self, kind: Kind, typed: &str) -> Option<Vec<(String, String)>> {
        Some(match kind {
            Kind::Task => self.tasks()?,
            Kind::Server => self.servers(),
            Kind::TaskOrServer => {
                let mut found = self.tasks().unwrap_or_default();
                found.extend(self.servers());
                found
            }
            Kind::Session => {
                let all = self.paths()?.all().ok()?;
                let name = |paths: Paths| (paths.session().to_owned(), String::new());
                all.into_iter().map(name).collect()
            }
            Kind::Tool => self.tools(),
            Kind::Argument => self.arguments(typed)?,
            Kind::Field => {
                let task = self.task()?;
                let asked = Elicitation::parse(&task.open_question()?.request);
                self.pairs(asked.fields(), &Map::new(), typed)
            }
            Kind::View => {
                let views = config().views.into_iter();
                views.map(|view| (view.name, String::new())).collect()
            }
            Kind::Command => {
                let about =
                    |it: &Command| it.get_about().map_or(String::new(), ToString::to_string);
                let root = Cli::command();
                let all = root.get_subcommands().filter(|it| !it.is_hide_set());
                all.map(|it| (it.get_name().to_owned(), about(it)))
                    .collect()
            }
        })
    }

    /// The files of the session; nothing where there are none yet, as none are made here.
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
        let there = Paths::unopened(dir.clone(), &session).ok()?;
        let is_there = there.sessions_dir().is_dir();
        is_there.then(|| Paths::resolve(dir, &session).ok())?
    }

    fn reader(&self) -> Option<Reader> {
        let paths = self.paths().filter(|paths| paths.db().is_file())?;
        Reader::open(&paths).ok()
    }

    fn links(&self) -> Vec<LinkRecord> {
        let links = self.reader().and_then(|mut reader| reader.links().ok());
        links.unwrap_or_default()
    }

    /// The tasks that the command can be about, newest first.
    fn tasks(&self) -> Option<Vec<(String, String)>> {
        let is_undo =
            |it: &ArgMatches| it.try_get_one::<bool>("undo").ok().flatten() == Some(&true);
        let is_undo = self.matches.as_ref().is_some_and(is_undo);
        let filter = ListFilter {
            all: is_undo,
            limit: Some(TASKS * 10),
        };
        let tasks = self.reader()?.tasks(filter).ok()?;
        let fits = |task: &&Task| match self.command.as_str() {
            "pause" | "resume" | "cancel" | "wait" => !task.status.is_settled(),
            "answer" => task.open_question().is_some(),
            "rm" if is_undo => task.forgotten_at.is_some(),
            _ => true,
        };
        let line = |task: &Task| {
            let about = format!("{}  {}", task.status.label(), calls::title(task));
            (task.id.to_string(), about)
        };
        let tasks = tasks.iter().filter(fits).take(TASKS);
        Some(tasks.map(line).collect())
    }

    fn servers(&self) -> Vec<(String, String)> {
        let config = config();
        let place = |url: &str| crate::domain::server_url::redacted(url).into_owned();
        let configured = config.servers.iter().map(|server| {
            let url = server.url.as_deref().map_or(String::new(), place);
            (server.name.to_string(), url)
        });
        let mut found: Vec<(String, String)> = configured.collect();
        for link in self.links() {
            if !found.iter().any(|(name, _)| name == link.name.as_str()) {
                found.push((link.name.to_string(), place(&link.url)));
            }
        }
        found
    }

    /// The saved lists of tools that are meant: those of the named servers, else of all.
    fn lists(&self) -> Vec<LinkRecord> {
        let usual = || config().defaults.server;
        let named = match self.servers.as_slice() {
            [] => usual().into_iter().collect(),
            named => named.to_vec(),
        };
        let is_meant = |link: &LinkRecord| {
            let is_it = |it: &String| link.name.as_str() == it || link.url == *it;
            named.is_empty() || named.iter().any(is_it)
        };
        self.links().into_iter().filter(is_meant).collect()
    }

    fn tools(&self) -> Vec<(String, String)> {
        let mut found: Vec<(String, String)> = Vec::new();
        for tool in self.lists().into_iter().flat_map(|link| link.tools) {
            if tool.is_offered() && !found.iter().any(|(name, _)| *name == tool.name) {
                let about = tool.description.unwrap_or_default();
                let about = about.lines().find(|line| !line.trim().is_empty());
                found.push((tool.name, about.unwrap_or_default().trim().to_owned()));
            }
        }
        found
    }

    /// The task that the command names.
    fn task(&self) -> Option<Task> {
        let id = self.matches.as_ref()?.try_get_one::<String>("id").ok()??;
        match self.reader()?.task(id).ok()? {
            Lookup::One(task) => Some(*task),
            _ => None,
        }
    }

    fn arguments(&self, typed: &str) -> Option<Vec<(String, String)>> {
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
        let tool = self
            .lists()
            .into_iter()
            .find_map(|link| of(link.tools, name))?;
        Some(self.pairs(&tool.arguments(), &Map::new(), typed))
    }

    /// `key=` of what is not given yet, or the values that are known once the key is typed.
    fn pairs(
        &self,
        specs: &[ArgumentSpec],
        before: &Map<String, Value>,
        typed: &str,
    ) -> Vec<(String, String)> {
        let plain = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        if let Some((key, _)) = typed.split_once('=') {
            let Some(spec) = specs.iter().find(|spec| spec.name == key) else {
                return Vec::new();
            };
            let mut values: Vec<(String, &str)> = Vec::new();
            values.extend(before.get(key).map(|value| (plain(value), "as before")));
            values.extend(spec.default.as_ref().map(|value| (plain(value), "default")));
            match &spec.kind {
                ArgumentKind::Choice(all) | ArgumentKind::Many(all) => {
                    values.extend(all.iter().map(|value| (plain(value), "")));
                }
                ArgumentKind::Boolean => {
                    values.extend(["true", "false"].map(|word| (word.to_owned(), "")));
                }
                _ => {}
            }
            let mut found: Vec<(String, String)> = Vec::new();
            for (value, about) in values {
                let value = format!("{key}={value}");
                if !found.iter().any(|(known, _)| *known == value) {
                    found.push((value, about.to_owned()));
                }
            }
            return found;
        }
        let given = self.matches.as_ref().and_then(|it| {
            let pairs = it.try_get_many::<String>("pairs").ok()??;
            let key =
                |pair: &String| Some(pair.split_once('=')?.0.trim_end_matches(':').to_owned());
            Some(pairs.filter_map(key).collect::<Vec<String>>())
        });
        let given = given.unwrap_or_default();
        let mut left: Vec<&ArgumentSpec> = specs
            .iter()
            .filter(|spec| !given.contains(&spec.name))
            .collect();
        left.sort_by_key(|spec| !spec.is_required);
        let line = |spec: &&ArgumentSpec| {
            let sign = match spec.kind {
                ArgumentKind::Json => ":=",
                _ => "=",
            };
            let about = spec.description.as_deref().unwrap_or_default();
            let about = about.lines().next().unwrap_or_default();
            let need = if spec.is_required { "required, " } else { "" };
            let about = format!("{need}{}  {about}", spec.expected());
            (format!("{}{sign}", spec.name), about.trim_end().to_owned())
        };
        left.iter().map(line).collect()
    }
}
