//! The log file of `--verbose`.

use std::io::Write;

use crate::{
    cli::{CliResult, args::GlobalArgs},
    store::Paths,
};

/// Starts the log file if `--verbose` is set.
pub(super) fn start_log(global: &GlobalArgs, paths: &Paths) -> CliResult<()> {
    let level = match global.verbose {
        0 => return Ok(()),
        1 => tracing::Level::INFO,
        2 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    write_log(paths.open_log()?, level);
    Ok(())
}

/// The log of keepers grows to about this size, twice.
const KEEPER_LOG_BYTES: u64 = 1 << 20;

/// Starts the log file of a keeper; an older one is renamed when it has grown too large.
pub(super) fn start_keeper_log(paths: &Paths) -> CliResult<()> {
    let log = paths.log();
    let is_large = std::fs::metadata(&log).is_ok_and(|found| found.len() > KEEPER_LOG_BYTES);
    if is_large {
        // If that fails, the log only grows further.
        let _ = std::fs::rename(&log, paths.older_log());
    }
    write_log(paths.open_log()?, tracing::Level::INFO);
    Ok(())
}

fn write_log(file: std::fs::File, level: tracing::Level) {
    // Fails on the second call in one process, as in tests or after `--verbose`; the first log file stays.
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        // Reporting a failed write to stderr can fail as well, and the panic would wait for the log forever.
        .log_internal_errors(false)
        .with_writer(std::sync::Mutex::new(CleanFile(file)))
        .try_init();
}

/// A log file without control characters, so that `cat` is safe whatever a server sent.
struct CleanFile(std::fs::File);

impl Write for CleanFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // Each write is a complete event, so no UTF-8 sequence is split.
        let text = String::from_utf8_lossy(bytes);
        self.0
            .write_all(crate::domain::text::clean_block(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_contains_no_control_characters() {
        let mut file = tempfile::tempfile().unwrap();
        let line = "a\u{1b}[2J\u{9b}\u{202e}\n".as_bytes();
        let mut log = CleanFile(file.try_clone().unwrap());
        assert_eq!(log.write(line).unwrap(), line.len());
        let mut written = String::new();
        std::io::Seek::rewind(&mut file).unwrap();
        std::io::Read::read_to_string(&mut file, &mut written).unwrap();
        assert_eq!(written, "a\u{fffd}[2J\u{fffd}\u{fffd}\n");
    }
}
