//! A driver of many calls on one server, a process of its own.

use std::path::Path;

use longhaul::{
    auth::{Keychain, Logins},
    domain::{NewCall, ServerName, ServerRef, SessionEvent, SessionRequest, TaskId},
    engine::{Clock, Options, ProcessRole, Session, SessionPurpose, Subscription},
    store::Paths,
};

use crate::support::say;

/// Calls that are begun at once: the server takes no more connections at a time.
const AT_ONCE: usize = 64;

/// Begins so many calls, and says a line once the last has ended.
pub(crate) fn drive(url: &str, calls: usize, state: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let session = open(url, Path::new(state));
        let reader = session.subscribe();
        let (mut begun, mut open, mut ended) = (0, 0, 0);
        let mut seen = std::collections::HashMap::new();
        while ended < calls {
            while begun < calls && begun < open + AT_ONCE {
                begun += 1;
                let id = TaskId::from_bits(begun as u64);
                let call = NewCall::new(
                    id,
                    ServerName::new("lab"),
                    "blast".to_owned(),
                    "{\"count\":1}".to_owned(),
                );
                session.ask(&reader, SessionRequest::Start(Box::new(call)));
            }
            heed(&reader, &mut seen, &mut open, &mut ended).await;
        }
        say("ended");
        session.close();
    });
}

/// Counts the calls that have begun and those that have ended.
async fn heed(
    reader: &Subscription,
    seen: &mut std::collections::HashMap<TaskId, (bool, bool)>,
    open: &mut usize,
    ended: &mut usize,
) {
    reader.changed().await;
    for news in reader.take() {
        let SessionEvent::Task(view) = news else {
            continue;
        };
        let (is_open, has_ended) = seen.entry(view.task.id.clone()).or_default();
        let has_begun = view.task.resumability.stream == Some(true);
        if has_begun || view.task.status.is_settled() {
            *open += usize::from(!std::mem::replace(is_open, true));
        }
        if view.task.status.is_settled() {
            *ended += usize::from(!std::mem::replace(has_ended, true));
        }
    }
}

fn open(url: &str, state: &Path) -> Session {
    let paths = Paths::resolve(Some(state.to_owned()), "default").unwrap();
    let logins = Logins::new(&paths.logins(), Keychain::none("a benchmark"));
    let server = ServerRef {
        name: ServerName::new("lab"),
        url: Some(url.to_owned()),
        headers: Vec::new(),
        config_headers: Vec::new(),
        protocol: Some("2025-11-25".to_owned()),
    };
    Session::open(Options {
        paths,
        servers: vec![server],
        config: longhaul::domain::ServerConfigs::default(),
        read_config: || None,
        role: ProcessRole::Drive,
        purpose: SessionPurpose::Screen,
        logins,
        traces: false,
        protocol: None,
        seed: 7,
        clock: Clock::start(),
        hook: None,
        args: Vec::new(),
        inherited: longhaul::engine::Inherited::default(),
        guard: longhaul::transport::ProcessGuard::default(),
    })
}
