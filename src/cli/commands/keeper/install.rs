//! `keeper install`: a user service that starts the keeper after a boot, so that unfinished calls resume.

use std::path::{Path, PathBuf};

use itertools::Itertools as _;
use serde_json::json;

use crate::{
    cli::{CliError, CliResult, Context, code},
    config,
    store::{self, Paths},
};

/// What starts services for a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServiceManager {
    /// systemd's manager of user services.
    Systemd,
    /// macOS.
    Launchd,
}

/// A service that runs the keeper of one session.
#[derive(Debug)]
struct Service {
    manager: ServiceManager,
    program: PathBuf,
    state_dir: PathBuf,
    session: String,
    /// The configuration file, if a variable named it.
    config: Option<PathBuf>,
}

/// Writes the service and prints the commands that switch it on.
pub(super) fn install(context: &mut Context<'_>) -> CliResult {
    context.may_act()?;
    let service = Service::of(&context.paths)?;
    let path = service.path()?;
    write(&path, &service.text())?;
    let next = service.commands(&path);
    if context.global.json {
        let document = json!({ "path": path, "next": next });
        context.terminal.print_json(&document)?;
        return Ok(code::OK);
    }
    context.print(&format!("wrote {}", path.display()))?;
    context.print(
        "To start the keeper after each boot, so that unfinished calls resume automatically, run:",
    )?;
    for line in &next {
        context.print(&format!("  {line}"))?;
    }
    if service.manager == ServiceManager::Systemd {
        context.print(
            "The last command also keeps it running after you log out. `longhaul doctor` shows whether the keeper currently survives a logout.",
        )?;
        if !Path::new("/run/systemd/system").exists() {
            context.info("systemd is not running on this machine, so the file has no effect");
        }
    }
    Ok(code::OK)
}

impl Service {
    fn of(paths: &Paths) -> CliResult<Self> {
        let program = std::env::current_exe().map_err(|error| {
            let message = format!("could not find the longhaul executable ({error})");
            CliError::new(code::BUG, message)
        })?;
        let config = std::env::var_os(config::PATH_VARIABLE).filter(|path| !path.is_empty());
        Ok(Self {
            manager: if cfg!(target_os = "macos") {
                ServiceManager::Launchd
            } else {
                ServiceManager::Systemd
            },
            program,
            state_dir: paths.dir.clone(),
            session: paths.session.clone(),
            config: config.and_then(|path| std::path::absolute(path).ok()),
        })
    }

    /// The name of the service, which is also the one of its file.
    fn name(&self) -> String {
        match self.manager {
            ServiceManager::Systemd => format!("longhaul-{}.service", self.session),
            ServiceManager::Launchd => format!("longhaul.keeper.{}.plist", self.session),
        }
    }

    fn path(&self) -> CliResult<PathBuf> {
        let dir = match self.manager {
            ServiceManager::Systemd => dirs::config_dir().map(|dir| dir.join("systemd/user")),
            ServiceManager::Launchd => dirs::home_dir().map(|dir| dir.join("Library/LaunchAgents")),
        };
        let dir = dir.ok_or_else(|| {
            CliError::usage("could not find your home directory; set HOME".to_owned())
        })?;
        Ok(dir.join(self.name()))
    }

    fn arguments(&self) -> [String; 7] {
        let of = |path: &Path| path.to_string_lossy().into_owned();
        [
            of(&self.program),
            "--state-dir".to_owned(),
            of(&self.state_dir),
            "--session".to_owned(),
            self.session.clone(),
            "keeper".to_owned(),
            "run".to_owned(),
        ]
    }

    fn text(&self) -> String {
        match self.manager {
            ServiceManager::Systemd => self.unit(),
            ServiceManager::Launchd => self.launch_agent(),
        }
    }

    /// A unit file (systemd.service(5)). A keeper without work exits with 0 and is not started again until the next boot;
    /// one that may not run, because another one does, is not started again either.
    fn unit(&self) -> String {
        let arguments = self.arguments();
        let command = arguments.iter().map(|word| unit_word(word)).join(" ");
        let config = self.config.as_ref().map_or(String::new(), |path| {
            let setting = format!("{}={}", config::PATH_VARIABLE, path.display());
            format!("Environment={}\n", unit_word(&setting))
        });
        format!(
            "# Written by `longhaul keeper install`.\n\
             [Unit]\n\
             Description=longhaul keeper of session {}\n\
             \n\
             [Service]\n\
             ExecStart={}\n\
             {config}Restart=on-failure\n\
             RestartSec=5\n\
             RestartPreventExitStatus={}\n\
             KillMode=mixed\n\
             TimeoutStopSec=20\n\
             \n\
             [Install]\n\
             WantedBy=default.target\n",
            self.session,
            command,
            code::REFUSED,
        )
    }

    /// A property list (launchd.plist(5)).
    fn launch_agent(&self) -> String {
        let arguments = self
            .arguments()
            .map(|word| format!("    <string>{}</string>\n", xml(&word)))
            .concat();
        let config = self.config.as_ref().map_or(String::new(), |path| {
            format!(
                "  <key>EnvironmentVariables</key>\n  <dict>\n    <key>{}</key>\n    <string>{}</string>\n  </dict>\n",
                config::PATH_VARIABLE,
                xml(&path.to_string_lossy())
            )
        });
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
             <plist version=\"1.0\">\n<dict>\n  <key>Label</key>\n  <string>longhaul.keeper.{}</string>\n  \
             <key>ProgramArguments</key>\n  <array>\n{arguments}  </array>\n{config}  <key>RunAtLoad</key>\n  <true/>\n  \
             <key>KeepAlive</key>\n  <dict>\n    <key>Crashed</key>\n    <true/>\n  </dict>\n</dict>\n</plist>\n",
            xml(&self.session)
        )
    }

    /// What the user runs to switch the service on.
    fn commands(&self, path: &Path) -> Vec<String> {
        let name = self.name();
        match self.manager {
            ServiceManager::Systemd => vec![
                "systemctl --user daemon-reload".to_owned(),
                format!("systemctl --user enable --now {name}"),
                "loginctl enable-linger".to_owned(),
            ],
            ServiceManager::Launchd => {
                let path = crate::domain::text::shell_word(&path.to_string_lossy());
                vec![format!("launchctl load -w {path}")]
            }
        }
    }
}

/// A word as systemd reads it in a setting: quoted, and without specifiers and variables.
fn unit_word(word: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in word.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '%' | '$' => quoted.extend([letter, letter]),
            '\n' => quoted.push_str("\\n"),
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

fn xml(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Writes the file, and its directories if they are missing.
fn write(path: &Path, text: &str) -> CliResult<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(|error| {
            let message = format!("could not create {}: {error}", dir.display());
            CliError::new(code::CANNOT_SAVE, message)
        })?;
    }
    Ok(store::write_atomically(path, text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(manager: ServiceManager) -> Service {
        Service {
            manager,
            program: "/opt/my tools/longhaul".into(),
            state_dir: "/home/ann/50% \"done\" & $more".into(),
            session: "nightly".to_owned(),
            config: Some("/home/ann/c.toml".into()),
        }
    }

    #[test]
    fn a_unit_quotes_what_systemd_would_change() {
        let unit = service(ServiceManager::Systemd).text();
        let start = "ExecStart=\"/opt/my tools/longhaul\" \"--state-dir\" \
                     \"/home/ann/50%% \\\"done\\\" & $$more\" \"--session\" \"nightly\" \"keeper\" \"run\"\n";
        assert!(unit.contains(start), "{unit}");
        assert!(
            unit.contains("Environment=\"LONGHAUL_CONFIG=/home/ann/c.toml\"\n"),
            "{unit}"
        );
    }

    #[test]
    fn a_launch_agent_escapes_what_xml_would_change() {
        let agent = service(ServiceManager::Launchd).text();
        let dir = "<string>/home/ann/50% \"done\" &amp; $more</string>";
        assert!(agent.contains(dir), "{agent}");
    }
}
