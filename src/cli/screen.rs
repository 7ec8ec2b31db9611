//! The way to the screen: what it needs of the command line and the environment.

use std::process::ExitCode;

use super::{
    Context, args,
    config::Config,
    dice, die_after,
    fail::{Fail, code},
    servers::Servers,
};
use crate::{
    app::{Look, Setup},
    domain::{Ask, ServerConfig, ServerRef, TaskId, ThemeName, text},
    engine::{Fuse, Options, PanicIn},
    shell::real::{Configuration, Opening, open as open_shell},
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
    pub(super) asks: Vec<Ask>,
    /// What went wrong before there was a screen to say it on.
    pub(super) remarks: Vec<String>,
    pub(super) is_demo: bool,
}

/// The exit tests' way to see a panic in each thread, once a file is there; not in a released program.
pub(super) fn fuse() -> Fuse {
    if !cfg!(debug_assertions) {
        return Fuse::default();
    }
    let thread = std::env::var_os("LONGHAUL_PANIC_IN");
    Fuse {
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
    if context.terminal.is_for_people() && capabilities(context).has_cursor {
        return Ok(());
    }
    Err(Fail::usage(format!(
        "the screen needs a terminal; `longhaul{} ls` lists tasks, `watch ID` follows one in lines",
        context.flags()
    )))
}

/// Opens the screen, on one task if one is named.
pub(super) fn open(context: &mut Context<'_>, id: Option<&str>) -> Result<ExitCode, Fail> {
    let attach = match id {
        Some(id) => {
            let mut reader = context.reader()?;
            Some(context.find(&mut reader, id)?.id)
        }
        None => None,
    };
    check(context)?;
    let (mut reader, remarks) = context.reader_to_show()?;
    // What is under way counts more than what is configured: the screen opens, and says so there.
    let unreadable = match &mut context.config {
        Ok(_) => None,
        told => std::mem::replace(told, Ok(Config::default())).err(),
    };
    let servers = Servers::of(context, &mut reader)?.all()?;
    show(
        context,
        attach,
        Extra {
            reopens_with: format!("longhaul{}", context.flags()),
            servers,
            remarks: unreadable.into_iter().chain(remarks).collect(),
            asks: Vec::new(),
            is_demo: false,
        },
    )
}

fn without_programs(mut servers: Vec<ServerConfig>) -> Vec<ServerConfig> {
    servers.retain(|server| server.program.is_none());
    servers
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
    // The demo is what it is, whatever is configured.
    let told = std::mem::replace(&mut context.config, Ok(Config::default()));
    let (config, unreadable) = match told {
        Ok(_) if extra.is_demo => (Config::default(), None),
        Ok(config) => (config, None),
        Err(words) => (Config::default(), Some(words)),
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
            config: if context.global.readonly {
                // Not even one that is approved.
                without_programs(config.servers)
            } else {
                config.servers
            },
            environment: super::variable,
            insecure_http: context.global.insecure_http,
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
        demo_dir: extra.is_demo.then(|| context.paths.demo_dir()),
        asks: extra.asks,
        configuration: Configuration {
            import: super::import::findings,
            save_view: super::config::save_view,
            export: super::export::on_screen,
            consent: super::roster::consent_on_screen,
        },
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
