//! Opens the TUI with what it needs from the command line, the config and the environment.

use std::ffi::OsString;

use crate::{
    app::{Look, Setup},
    cli::{
        CliError, CliResult, Context, Targets, environment::random_bits, host::tunnel, live_session,
    },
    config::{self, Config},
    domain::{ServerConfigs, ServerRef, SessionRequest, TaskId, text},
    engine::{Host, Options, ProcessRole, SessionPurpose},
    shell::{Opening, ServiceOptions, open as open_shell},
    term::{browser::Browser, caps::Capabilities},
};

/// What differs between the commands that open the TUI.
#[derive(Debug, Default)]
pub(super) struct ScreenOptions {
    /// The command that opens the same session again.
    pub(super) reopens_with: String,
    pub(super) servers: Vec<ServerRef>,
    /// The configured servers.
    pub(super) server_configs: ServerConfigs,
    /// Sent when the session is open.
    pub(super) requests: Vec<SessionRequest>,
    /// Problems found before the TUI was open.
    pub(super) notices: Vec<String>,
    pub(super) is_demo: bool,
    /// The tunnel, if the session is on another machine.
    pub(super) host: Option<Host>,
}

/// What the terminal can show, from the environment and the flags.
pub(super) fn capabilities(context: &Context<'_>) -> Capabilities {
    let variable = |name: &str| {
        let value = std::env::var_os(name).unwrap_or_default();
        value.to_string_lossy().into_owned()
    };
    Capabilities::detect(variable, context.global.color.unwrap_or_default())
}

/// Fails if the terminal cannot show the screen. Called before anything is started.
pub(super) fn check(context: &Context<'_>) -> CliResult<()> {
    let instead = "use `longhaul ls` to list tasks and `longhaul watch ID` to follow one";
    if !context.terminal.is_for_people() {
        return Err(CliError::usage(format!(
            "the screen needs a terminal; {instead}"
        )));
    }
    if !capabilities(context).has_cursor {
        let term = std::env::var_os("TERM").unwrap_or_default();
        return Err(CliError::usage(format!(
            "the screen needs a terminal that can move the cursor, which TERM={} can't; set TERM to match your terminal, \
             e.g. xterm-256color, or {instead}",
            text::shell_word(&term.to_string_lossy())
        )));
    }
    Ok(())
}

/// `longhaul` without a command, and `attach`: opens the TUI, on one task if an id is given.
pub(super) fn open(context: &mut Context<'_>, id: Option<&str>, host: Option<&str>) -> CliResult {
    if let Some(host) = host {
        return open_there(context, id, host);
    }
    let attach = match id {
        Some(id) => {
            let mut reader = context.reader()?;
            Some(context.find(&mut reader, id)?.id)
        }
        None => None,
    };
    check(context)?;
    let (mut reader, notices) = context.reader_to_show()?;
    let servers = context.config.as_ref().map(|it| it.servers.clone());
    let server_configs = servers.map(config::server_configs).unwrap_or_default();
    // Running tasks matter more than a broken config file: open anyway, and show the error in the TUI.
    let unreadable = match &mut context.config {
        Ok(_) => None,
        broken => std::mem::replace(broken, Ok(Config::default())).err(),
    };
    let servers = Targets::of(context, &mut reader)?.all()?;
    show(
        context,
        attach,
        ScreenOptions {
            reopens_with: format!("longhaul{}", context.flags()),
            servers,
            server_configs,
            notices: unreadable
                .map(|error| error.to_string())
                .into_iter()
                .chain(notices)
                .collect(),
            ..ScreenOptions::default()
        },
    )
}

/// Opens the TUI on the session of another machine.
fn open_there(context: &mut Context<'_>, id: Option<&str>, host: &str) -> CliResult {
    check(context)?;
    let whole_id = |id: &str| {
        TaskId::parse(id).ok_or_else(|| {
            CliError::usage(format!(
                "{id:?} is not a complete task id; see `longhaul ls`"
            ))
        })
    };
    let attach = id.map(whole_id).transpose()?;
    let mut session: Vec<OsString> = Vec::new();
    if let Some(name) = &context.global.session {
        session.extend(["--session".into(), name.into()]);
    }
    if let Some(dir) = &context.global.state_dir {
        session.extend(["--state-dir".into(), dir.into()]);
    }
    show(
        context,
        attach,
        ScreenOptions {
            reopens_with: format!("longhaul{}", context.flags()),
            host: Some(tunnel(host, &session)?),
            ..ScreenOptions::default()
        },
    )
}

/// Opens the TUI, after a [`check`], and returns its exit code.
pub(super) fn show(
    context: &mut Context<'_>,
    attach: Option<TaskId>,
    options: ScreenOptions,
) -> CliResult {
    let able = capabilities(context);
    // The demo ignores the rest of the config.
    if options.is_demo && context.config.is_ok() {
        context.config = Ok(Config::default());
    }
    let role = match options.host.clone() {
        Some(host) => ProcessRole::Remote(host),
        None => context.role()?,
    };
    let config = std::mem::replace(&mut context.config, Ok(Config::default()));
    let (mut config, unreadable) = match config {
        Ok(config) => (config, None),
        Err(error) => (Config::default(), Some(error.to_string())),
    };
    let notices = unreadable.into_iter();
    let notices = notices.chain(std::mem::take(&mut config.notices));
    let notices = notices.chain(options.notices.clone()).collect();
    let variable = |name: &str| std::env::var_os(name)?.into_string().ok();
    let look = Look {
        no_color: able.no_color,
        theme: config.theme.unwrap_or_default(),
        ascii: context.global.ascii || !able.is_unicode,
        no_motion: context.global.no_motion,
    };
    let setup = Setup {
        session: context.paths.session.clone(),
        reopens_with: options.reopens_with.clone(),
        flags: context.flags(),
        is_demo: options.is_demo,
        host: options.host.as_ref().map(|host| host.name.clone()),
        tz: crate::cli::format::time_zone(),
        look,
        readonly: context.global.readonly,
        settings: config.take_settings(),
        seed: random_bits(),
    };
    let opening = Opening {
        notifications: able.notifications.with_overrides(&config.notify),
        attach,
        asks: options.requests.clone(),
        services: ServiceOptions {
            demo_dir: options.is_demo.then(|| context.paths.demo_dir()),
            config_mark: context.config_mark,
            browser: Browser::find(None, variable),
        },
        notices,
        setup,
        engine: session_options(context, &config, options, role),
    };
    let outcome = open_shell(opening).map_err(CliError::bug("use the terminal"))?;
    if !outcome.note.line.is_empty() {
        // Its commands are complete.
        context.terminal.report_text(&outcome.note.line);
    }
    Ok(outcome.exit)
}

fn session_options(
    context: &Context<'_>,
    config: &Config,
    options: ScreenOptions,
    role: ProcessRole,
) -> Options {
    let is_local = options.host.is_none();
    let mut server_configs = options.server_configs;
    if context.global.readonly {
        // With --readonly, not even an approved program is started.
        let servers = &mut server_configs.servers;
        servers.retain(|server| server.program.is_none());
    }
    let read_config = if options.is_demo || !is_local || context.global.readonly {
        || None
    } else {
        config::read_server_configs
    };
    Options {
        read_config,
        purpose: SessionPurpose::Screen,
        ..live_session::engine_options(context, config, options.servers, server_configs, role)
    }
}
