//! The session file: what has to outlive this process, in one SQLite file that survives `kill -9`.
//!
//! Owns the paths, the driver's lock, the schema and every statement. Must not know about networks, screens or
//! clocks: it saves [`Row`](crate::domain::Row)s and returns records. Invariants: one save is one transaction; a
//! damaged file is quarantined and reported, never overwritten; only the holder of the
//! [`DriverLock`] opens a [`Writer`], anyone may open a [`Reader`]. Also here: a [`PrivateFile`] for what must
//! not be in a session, and the traces that a [`TraceWriter`] writes.

mod atomic;
mod error;
mod lock;
mod paths;
mod private;
mod quarantine;
mod reader;
mod rows;
mod schema;
mod thinning;
mod trace;
mod writer;

pub use atomic::{create_atomically, directory_of, replace_atomically, write_atomically};
pub use error::{StoreError, StoreResult, survive_file_size_limit};
pub use lock::{DriverLock, StartLock, process_state};
pub use paths::{CONTRACT, Paths, is_session_name, open_directly};
pub use private::{Edition, Held, PrivateFile};
pub use reader::{ListFilter, Lookup, Reader, Version};
pub use trace::{TraceReader, TraceWriter};
pub use writer::{Durability, Opened, Restored, RestoredTask, Writer};
