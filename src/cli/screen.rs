//! The way to the screen: what it needs of the command line and the environment.

use std::process::ExitCode;

use super::{
    Context, args,
    config::{self, Config},
    dice, die_after,
    fail::{Fail, code},
    target::Targets,
};
use crate::{
    app::{ConfigReread, Look, Setup},
    domain::{ServerConfigs, ServerRef, SessionRequest, TaskId, ThemeName, text},
    engine::{FailPoint, Options, PanicIn},
    shell::real::{Configuration, FileMark, Opening, open as open_shell},
    term::{
        browser::Browser,
        caps::{Capabilities, ColorChoice, Environment},
        viewer::Viewer,
    },
};

/// What a command brings to the screen.
#[derive(Debug)]
pub(super) struct Extra {
    /// The command that opens the same again.
    pub(super) reopens_with: String,
    pub(super) servers: Vec<ServerRef>,
    /// What is configured.
    pub(super) server_configs: ServerConfigs,
    pub(super) asks: Vec<SessionRequest>,
    /// What went wrong before there was a screen to say it on.
    pub(super) remarks: Vec<String>,
    pub(super) is_demo: bool,
    /// Drive from here, whoever does.
    pub(super) drives: bool,
}

/// The exit tests' way to see a panic in each thread, once a file is there; not in a released program.
pub(super) fn fuse() -> FailPoint {
    if !cfg!(debug_assertions) {
        return FailPoint::default();
    }
    let thread = std::env::var_os("LONGHAUL_PANIC_IN");
    FailPoint {
        thread: match thread.as_ref().and_then(|name| name.to_str()) {
            Some("screen") => Some(PanicIn::Screen),
            Some("network") => Some(PanicIn::Network),
            Some("journal") => Some(PanicIn::Journal),
            Some("input") => Some(PanicIn::Input),
            _ => None,
        },
        lit_by: std::env::var_os("LONGHAUL_PANIC_WHEN").map(Into::into),
    }
}

/// What the terminal can show, by the environment and the flags.
pub(super) fn capabilities(context: &Context<'_>) -> Capabilities {
    let variable =
        |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let environment = Environment {
        term: variable("TERM"),
        colorterm: variable("COLORTERM"),
        no_color: variable("NO_COLOR"),
        lc_all: variable("LC_ALL"),
        lc_ctype: variable("LC_CTYPE"),
        lang: variable("LANG"),
        tmux: variable("TMUX"),
        term_program: variable("TERM_PROGRAM"),
        kitty: variable("KITTY_WINDOW_ID"),
        windows_terminal: variable("WT_SESSION"),
        conemu: variable("ConEmuANSI"),
        vte: variable("VTE_VERSION"),
    };
    let choice = match context.global.color {
        None | Some(args::Color::Auto) => ColorChoice::Auto,
        Some(args::Color::Always) => ColorChoice::Always,
        Some(args::Color::Never) => ColorChoice::Never,
    };
    Capabilities::detect(&environment, choice)
}

/// Refuses where there is no screen to draw on, before anything is started.
pub(super) fn check(context: &Context<'_>) -> Result<(), Fail> {
    let flags = context.flags();
    let instead = format!("`longhaul{flags} ls` lists tasks, `watch ID` follows one in lines");
    if !context.terminal.is_for_people() {
        let words = format!("the screen needs a terminal; {instead}");
        return Err(Fail::usage(words));
    }
    if !capabilities(context).has_cursor {
        let term = std::env::var_os("TERM").unwrap_or_default();
        return Err(Fail::usage(format!(
            "the screen needs a terminal that can move its cursor, and TERM={} cannot; set TERM to what your terminal \
             is, e.g. xterm-256color. {instead}",
            super::quoted(&text::clean_line(&term.to_string_lossy()))
        )));
    }
    Ok(())
}

/// Opens the screen, on one task if one is named; it `drives` if it can.
pub(super) fn open(
    context: &mut Context<'_>,
    id: Option<&str>,
    drives: bool,
) -> Result<ExitCode, Fail> {
    if drives {
        context.may_act()?;
    }
    let attach = match id {
        Some(id) => {
            let mut reader = context.reader()?;
            Some(context.find(&mut reader, id)?.id)
        }
        None => None,
    };
    check(context)?;
    let (mut reader, remarks) = context.reader_to_show()?;
    let servers = context.config.as_ref().map(|it| it.servers.clone());
    let server_configs = servers.map(config::server_configs).unwrap_or_default();
    // What is under way counts more than what is configured: the screen opens, and says so there.
    let unreadable = match &mut context.config {
        Ok(_) => None,
        told => std::mem::replace(told, Ok(Config::default())).err(),
    };
    let servers = Targets::of(context, &mut reader)?.all()?;
    show(
        context,
        attach,
        Extra {
            reopens_with: format!("longhaul{}", context.flags()),
            servers,
            server_configs,
            remarks: unreadable.into_iter().chain(remarks).collect(),
            asks: Vec::new(),
            is_demo: false,
            drives,
        },
    )
}

/// What the configuration says now, for an open screen; nothing where the file is as it was and nobody wants it `anyway`.
fn look_again(mark: &mut FileMark, anyway: bool) -> Option<Result<ConfigReread, String>> {
    let now = config::mark();
    if std::mem::replace(mark, now) == now && !anyway {
        return None;
    }
    let path = config::path();
    let read = config::read(path.as_deref()).map(|config| ConfigReread {
        file: path.map_or(String::new(), |path| path.display().to_string()),
        limits: config.usual_limits(),
        theme: config.theme.unwrap_or_default(),
        takes_mouse: config.defaults.takes_mouse,
        views: config.views,
        keys: config.keys,
        warnings: config.remarks,
        server_configs: config::server_configs(config.servers),
    });
    Some(read.map_err(|why| format!("{why}; until then all is as it was before")))
}

/// Opens the screen.
pub(super) fn show(
    context: &mut Context<'_>,
    attach: Option<TaskId>,
    extra: Extra,
) -> Result<ExitCode, Fail> {
    check(context)?;
    let able = capabilities(context);
    let mut look = Look {
        colour: able.colour,
        theme: ThemeName::default(),
        ascii: context.global.ascii || !able.is_unicode,
        motion: !context.global.no_motion,
    };
    let takes_mouse = context
        .config
        .as_ref()
        .is_ok_and(|it| it.defaults.takes_mouse);
    // The demo is what it is, whatever is configured.
    let told = std::mem::replace(&mut context.config, Ok(Config::default()));
    let (config, unreadable) = match told {
        Ok(_) if extra.is_demo => (Config::default(), None),
        Ok(config) => (config, None),
        Err(words) => (Config::default(), Some(words)),
    };
    let mut server_configs = extra.server_configs;
    if context.global.readonly {
        // Not even one that is approved is started.
        server_configs
            .servers
            .retain(|server| server.program.is_none());
    }
    let read_config = if extra.is_demo || context.global.readonly {
        || None
    } else {
        config::read_roster
    };
    let limits = config.usual_limits();
    let hook = config.hook();
    look.theme = config.theme.unwrap_or_default();
    let remarks = unreadable.into_iter().chain(config.remarks);
    let variable = |name: &str| std::env::var_os(name)?.into_string().ok();
    let viewer = Viewer::find(variable);
    let outcome = open_shell(Opening {
        engine: Options {
            paths: context.paths.clone(),
            servers: extra.servers,
            config: server_configs,
            read_config,
            readonly: context.global.readonly,
            environment: super::variable,
            logins: context.logins.clone(),
            insecure_http: context.global.insecure_http,
            traces: context.global.trace,
            protocol: context.global.protocol.0,
            seed: dice(),
            clock: context.clock,
            hook,
            die_after: die_after(),
            fuse: fuse(),
        },
        setup: Setup {
            session: context.paths.session().to_owned(),
            reopens_with: extra.reopens_with,
            flags: context.flags(),
            is_demo: extra.is_demo,
            tz: jiff::tz::TimeZone::system(),
            look,
            takes_mouse,
            readonly: context.global.readonly,
            limits,
            notify: config.notify,
            views: config.views,
            viewer: viewer.as_ref().map(|viewer| viewer.program().to_owned()),
            keys: config.keys,
            seed: dice(),
        },
        aside: able.aside.as_wanted(&config.notify),
        attach,
        drives: extra.drives,
        demo_dir: extra.is_demo.then(|| context.paths.demo_dir()),
        asks: extra.asks,
        configuration: Configuration {
            import: super::import::findings,
            save_view: config::save_view,
            look: look_again,
            export: super::export::on_screen,
            consent: super::servers::consent_on_screen,
        },
        config_mark: context.config_mark,
        given: super::export::given(context),
        browser: Browser::find(None, variable),
        viewer,
        remarks: remarks.chain(extra.remarks).collect(),
    });
    match outcome {
        Ok(outcome) => {
            if !outcome.note.line.is_empty() {
                context.terminal.say(&text::clean_block(&outcome.note.line));
            }
            Ok(ExitCode::from(outcome.exit))
        }
        Err(error) => Err(Fail::new(
            code::BUG,
            format!("could not use the terminal: {error}"),
        )),
    }
}
