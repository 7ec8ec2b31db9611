//! The terminal edge on a real pseudo-terminal: it is given back on every way out.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test fail by panic, as the test does"
)]

use std::{
    io::{Read as _, Write as _},
    sync::{Arc, mpsc},
    time::Duration,
};

use longhaul::{
    domain::{Chord, Key, UserInput},
    term::{
        guard::{self, Guard},
        input::InputStream,
        osc,
        screen::Screen,
        signals::{self, Signal, Signals},
    },
};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use ratatui::style::Stylize as _;

/// How the child of this test binary is to behave; set only for it.
const CHILD: &str = "LONGHAUL_TEST_TERM";
/// Long enough for any machine; nothing waits for it when all is well.
const DEADLINE: Duration = Duration::from_secs(20);

/// A small shell: paints its input and exits on request.
#[test]
fn child_that_takes_the_terminal() {
    let Some(manner) = std::env::var_os(CHILD) else {
        return;
    };
    guard::install_panic_hook();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let code = runtime.block_on(shell(manner == "deaf"));
    std::process::exit(code);
}

async fn shell(is_deaf: bool) -> i32 {
    let mut signals = Signals::catch().unwrap();
    let guard = Guard::enter(std::io::stdout()).unwrap();
    assert!(Guard::enter(std::io::stdout()).is_err(), "taken twice");
    let mut inputs = InputStream::open(Arc::clone(&guard.tty), || {}).unwrap();
    let mut screen = Screen::new(&guard).unwrap();
    screen.send(&osc::title("ours")).unwrap();
    let mut line = String::from("READY");
    loop {
        let drawn = screen.draw(|frame| {
            let text = format!("{line} in {}x{}", frame.area().width, frame.area().height);
            frame.render_widget(text.bold(), frame.area());
        });
        if drawn.is_err() && !guard::has_panicked() {
            return 74;
        }
        let signal = tokio::select! {
            () = guard::panicked() => return 70,
            signal = signals.next(), if !is_deaf => Some(signal),
            input = inputs.next() => match input {
                None => return 129,
                Some(UserInput::Paste(text)) => { line = format!("PASTED {text:?}"); None }
                Some(UserInput::Key(chord)) if chord == Chord::char('q') => return 0,
                Some(UserInput::Key(chord)) if chord == Chord::char('p') => {
                    std::thread::spawn(|| panic!("on purpose")).join().unwrap_err();
                    None
                }
                Some(UserInput::Key(chord)) if chord == Chord::ctrl('z') => {
                    let ended = signals::suspend(&guard, &mut signals).await.unwrap();
                    screen.clear().unwrap();
                    line = "BACK".into();
                    ended
                }
                Some(UserInput::Key(Chord { key: Key::Char('e'), .. })) => panic!("on purpose, here"),
                Some(UserInput::Key(chord)) => { line = format!("KEY {chord}"); None }
                Some(_) => None,
            },
        };
        match signal {
            Some(Signal::Stop) => {
                assert_eq!(signals::suspend(&guard, &mut signals).await.unwrap(), None);
                screen.clear().unwrap();
                line = "BACK".into();
            }
            Some(Signal::Continue) => {
                guard.reenter().unwrap();
                screen.clear().unwrap();
            }
            Some(signal) => {
                drop(guard);
                let mut out = std::io::stdout();
                write!(out, "ended by {signal:?}\r\n").unwrap();
                return 128;
            }
            None => {}
        }
    }
}

/// A terminal with something running in it.
struct Pty {
    master: Box<dyn MasterPty + Send>,
    child: Box<dyn Child + Send + Sync>,
    keys: Box<dyn std::io::Write + Send>,
    bytes: mpsc::Receiver<Vec<u8>>,
    screen: vt100::Parser,
    raw: Vec<u8>,
    modes: String,
}

fn command(program: &str, manner: &str) -> CommandBuilder {
    let mut command = CommandBuilder::new(program);
    command.env(CHILD, manner);
    command.env("NO_COLOR", "1");
    // Its report would scroll away what is waited for.
    command.env("RUST_BACKTRACE", "0");
    command.env("PS1", "$ ");
    command
}

fn ourselves() -> String {
    std::env::current_exe()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned()
}

fn run_child(manner: &str) -> Pty {
    let mut command = command(&ourselves(), manner);
    command.args([
        "--exact",
        "term::child_that_takes_the_terminal",
        "--nocapture",
    ]);
    Pty::run(command)
}

impl Pty {
    fn run(command: CommandBuilder) -> Self {
        let size = PtySize {
            rows: 24,
            cols: 80,
            ..PtySize::default()
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let modes = modes(&*pair.master);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let keys = pair.master.take_writer().unwrap();
        let child = pair.slave.spawn_command(command).unwrap();
        let (sender, bytes) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer.get(..count).unwrap().to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            master: pair.master,
            child,
            keys,
            bytes,
            screen: vt100::Parser::new(24.try_into().unwrap(), 80.try_into().unwrap(), 0),
            raw: Vec::new(),
            modes,
        }
    }

    /// Reads until the screen shows `text`.
    fn wait_for(&mut self, text: &str) {
        while !self.screen.screen().contents().contains(text) {
            let Ok(bytes) = self.bytes.recv_timeout(DEADLINE) else {
                panic!("no {text:?} in:\n{}", self.screen.screen().contents());
            };
            self.screen.process(&bytes);
            self.raw.extend(bytes);
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.process_id().unwrap()).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal)
            .unwrap();
    }

    /// Waits for the end and gives the code.
    fn end(&mut self) -> u32 {
        let mut killer = self.child.clone_killer();
        let (done, is_done) = mpsc::channel::<()>();
        let watch = std::thread::spawn(move || {
            let is_late = is_done.recv_timeout(DEADLINE).is_err();
            if is_late {
                killer.kill().unwrap();
            }
            is_late
        });
        let code = self.child.wait().unwrap().exit_code();
        // It may have given up already.
        let _ = done.send(());
        let is_late = watch.join().unwrap();
        assert!(!is_late, "no end; {}", self.screen.screen().contents());
        code
    }

    /// Waits for the end, reads what is left, and compares the terminal with what it was.
    fn assert_given_back(&mut self, code: u32) {
        assert_eq!(self.end(), code);
        // A pty tells its modes as long as the master is open.
        assert_eq!(modes(&*self.master), self.modes);
        while let Ok(bytes) = self.bytes.recv_timeout(Duration::from_millis(300)) {
            self.screen.process(&bytes);
            self.raw.extend(bytes);
        }
        let screen = self.screen.screen();
        assert!(!screen.alternate_screen());
        assert!(!screen.hide_cursor());
        assert!(!screen.bracketed_paste());
        let raw = String::from_utf8_lossy(&self.raw);
        for (on, off) in [
            ("\u{1b}[?1004h", "\u{1b}[?1004l"),
            ("\u{1b}[22;2t", "\u{1b}[23;2t"),
        ] {
            assert_eq!(raw.matches(on).count(), raw.matches(off).count(), "{on:?}");
        }
    }
}

fn modes(master: &dyn MasterPty) -> String {
    format!("{:?}", master.get_termios().unwrap())
}

#[test]
fn the_terminal_is_given_back_when_the_program_ends() {
    let mut pty = run_child("");
    pty.wait_for("READY in 80x24");
    assert_ne!(modes(&*pty.master), pty.modes);
    assert!(pty.screen.screen().alternate_screen());
    // NO_COLOR is set, and takes no attributes away.
    assert!(pty.screen.screen().cell(0, 0).unwrap().bold());
    pty.press("G");
    pty.wait_for("KEY G");
    pty.press("\u{1b}[200~q\ry\u{1b}[201~");
    pty.wait_for("PASTED \"q\\ny\"");
    let size = PtySize {
        rows: 10,
        cols: 40,
        ..PtySize::default()
    };
    pty.master.resize(size).unwrap();
    pty.wait_for("in 40x10");
    pty.press("q");
    pty.assert_given_back(0);
}

#[test]
fn a_partial_escape_sequence_does_not_block_signals() {
    let mut pty = run_child("");
    pty.wait_for("READY");
    pty.press("\u{1b}[");
    pty.press("\u{1b}[");
    pty.signal(rustix::process::Signal::TERM);
    pty.wait_for("ended by Ending(15)");
    pty.assert_given_back(128);
}

#[test]
fn a_partial_escape_sequence_does_not_block_keys() {
    let mut pty = run_child("");
    pty.wait_for("READY");
    for begun in ["\u{1b}[1", "\u{1b}[1;", "\u{1b}O"] {
        pty.press(begun);
        pty.press("\u{3}");
        pty.wait_for("KEY ctrl-c");
        pty.press("G");
        pty.wait_for("KEY G");
    }
    // Given up after a while, whatever comes then.
    pty.press("\u{1b}");
    pty.wait_for("KEY esc");
    pty.press("q");
    pty.assert_given_back(0);
}

#[test]
fn the_terminal_is_given_back_after_a_panic_in_another_thread() {
    let mut pty = run_child("");
    pty.wait_for("READY");
    pty.press("p");
    pty.wait_for("on purpose");
    pty.assert_given_back(70);
}

#[test]
fn the_terminal_is_given_back_after_a_panic_of_the_loop() {
    let mut pty = run_child("");
    pty.wait_for("READY");
    pty.press("e");
    pty.wait_for("on purpose, here");
    pty.assert_given_back(101);
}

#[test]
fn the_terminal_is_given_back_on_every_signal() {
    use rustix::process::Signal as S;
    for (signal, name) in [
        (S::INT, "Interrupt"),
        (S::TERM, "Ending(15)"),
        (S::HUP, "Ending(1)"),
        (S::QUIT, "Ending(3)"),
    ] {
        let mut pty = run_child("");
        pty.wait_for("READY");
        pty.signal(signal);
        pty.wait_for(&format!("ended by {name}"));
        pty.assert_given_back(128);
    }
}

#[test]
fn a_hang_up_ends_the_input_without_a_signal() {
    for manner in ["deaf", ""] {
        let size = PtySize {
            rows: 24,
            cols: 80,
            ..PtySize::default()
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = command(&ourselves(), manner);
        command.args([
            "--exact",
            "term::child_that_takes_the_terminal",
            "--nocapture",
        ]);
        let mut child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&seen).contains("READY") {
            let count = reader.read(&mut buffer).unwrap();
            seen.extend(buffer.get(..count).unwrap());
        }
        drop((reader, pair.master));
        let mut killer = child.clone_killer();
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait().unwrap().exit_code()));
        let Ok(code) = ended.recv_timeout(DEADLINE) else {
            killer.kill().unwrap();
            panic!("it lives on without a terminal");
        };
        assert_ne!(code, 0);
    }
}

/// A shell with job control that runs the child.
fn run_in_shell() -> Pty {
    let mut pty = Pty::run({
        let mut command = command("sh", "");
        command.arg("-i");
        command
    });
    pty.wait_for("$");
    let line = format!(
        "{} --exact term::child_that_takes_the_terminal --nocapture\r",
        ourselves()
    );
    pty.press(&line);
    pty.wait_for("READY");
    pty
}

#[test]
fn it_stops_and_comes_back_as_the_shell_wants_it() {
    let mut pty = run_in_shell();
    pty.press("\u{1a}");
    pty.wait_for("Stopped");
    assert!(!pty.screen.screen().alternate_screen());
    pty.press("fg; exit 9\r");
    pty.wait_for("BACK");
    assert!(pty.screen.screen().alternate_screen());
    pty.press("q");
    assert_eq!(pty.end(), 9);
}

/// Stops the child and continues it in the background.
fn send_to_the_back(pty: &mut Pty) {
    pty.press("\u{1a}");
    pty.wait_for("Stopped");
    pty.press("bg; kill -0 $$ && echo in the $((40+2)) back\r");
    pty.wait_for("in the 42 back");
}

#[test]
fn continues_in_the_background_without_drawing() {
    let mut pty = run_in_shell();
    send_to_the_back(&mut pty);
    // Read by the shell although the program beside it waits for keys of the same terminal.
    pty.press("echo $((40+3)) keys\r");
    pty.wait_for("43 keys");
    assert!(!pty.screen.screen().alternate_screen());
    pty.press("kill %1\r");
    pty.wait_for("ended by Ending(15)");
    // Twice, because a shell that thinks the job still stopped warns first.
    pty.press("exit 9; exit 9\r");
    assert_eq!(pty.end(), 9);
}

#[test]
fn returns_from_the_background_to_the_foreground() {
    let mut pty = run_in_shell();
    send_to_the_back(&mut pty);
    pty.press("fg; exit 9\r");
    pty.wait_for("BACK");
    assert!(pty.screen.screen().alternate_screen());
    pty.press("G");
    pty.wait_for("KEY G");
    pty.press("q");
    assert_eq!(pty.end(), 9);
}

#[test]
fn a_stopped_program_can_be_ended() {
    let mut pty = run_in_shell();
    pty.press("\u{1a}");
    pty.wait_for("Stopped");
    // Some shells wake what they end, this does it for all.
    // Woken again and again, because the first waking may come just before it stops itself once more.
    pty.press("kill %1; for i in 1 2 3 4 5 6 7 8 9; do kill -CONT %1; (true); done 2>/dev/null\r");
    pty.wait_for("ended by Ending(15)");
    // Twice, because a shell that thinks the job still stopped warns first.
    pty.press("exit 9; exit 9\r");
    assert_eq!(pty.end(), 9);
}
