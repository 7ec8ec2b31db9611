//! Types that every other module shares: tasks, status, connectivity, what a cut costs, requests and saved records.
//!
//! Everything here is a plain value: no network, disk, terminal or clock. Times are passed in as [`Stamp`]s. Invariant:
//! server text is shown only after it went through [`text`], server numbers only after [`Progress::reported`].

mod argument;
mod base64;
mod byte_count;
mod call;
mod caller;
mod chord;
mod color_choice;
mod config;
mod configure_error;
mod elicitation;
mod era;
pub mod exit;
mod field_spec;
mod header;
mod history;
mod ids;
mod if_cut;
mod input;
mod link_record;
mod log_level;
mod notify;
mod pace;
mod progress;
mod proxy_settings;
mod question;
mod rate_limit;
mod record;
mod repair;
mod request;
mod result;
mod saved;
mod schema;
mod server_task;
pub mod server_url;
mod stamp;
mod status;
mod sync;
mod task_action;
pub mod text;
mod timeline;
mod tool;
mod traffic;
mod view;
pub mod wrap;

pub use self::call::{Checkpoint, Limits, NewCall, ServerRef};
pub use self::caller::{
    Caller, Collected, Forwarded, GaveUp, GaveUpReason, HostCapabilities, HostProfile, HostRequest,
    Introduction, canonical_arguments, json_number,
};
pub use self::config::{
    DefaultLimits, MissingVariable, Program, ServerConfig, ServerConfigs, ServerObstacle, Template,
    TemplateError, ThemeName, Variables, is_variable,
};
pub use self::link_record::{Cursors, LinkRecord, ServerCapabilities, StandaloneStream};
pub use argument::{ArgumentKind, ArgumentSpec, Bounds, has_large_integer, unquoted};
pub use base64::{base64, base64_url, decode_base64};
pub use byte_count::{ByteShare, SharedByteCount};
pub use chord::{Chord, Key, ParseChordError};
pub use color_choice::ColorChoice;
pub use configure_error::ConfigureError;
pub use elicitation::{Elicitation, ElicitationMode, UrlPreview};
pub use era::{Era, EraReason, ModernSupport, ProtocolChoice, ProtocolVersion, RevisionError};
pub use field_spec::FieldSpec;
pub use header::{HeaderError, check_header, is_credential_name};
pub use history::{HistoryEntry, HistoryEvent, HistoryLine};
pub use ids::{EventId, ServerName, TaskId, is_task_id_prefix};
pub use if_cut::{CutOutcome, CutReason, IfCut};
pub use input::UserInput;
pub use log_level::LogLevel;
pub use notify::{DesktopProtocol, NotifyConfig, NotifyLevel, NotifyReason, OverallProgress};
pub use pace::Pace;
pub use progress::{Progress, whole_percent};
pub use proxy_settings::{OnCancel, PatienceChoice, ProxySettings};
pub use question::{Answer, OnInput, Question, QuestionKind, QuestionSource};
pub use rate_limit::RateLimit;
pub use record::{Attempt, CallOptions, Phase, Row, Task, TaskEnd, TaskError, TaskErrorKind};
pub use repair::{replace_lone_surrogates, without_lone_surrogates, without_nan};
pub use request::{
    Notice, NoticeLevel, RequestError, SessionDriver, SessionEvent, SessionOutcome, SessionRequest,
    SessionRequestId, SessionResponse, SignInPage, TaskChange,
};
pub use result::{
    ContentBlock, ContentError, Media, ResourceLink, content_element, is_markdown_type,
};
pub use saved::{Saved, SavedRead};
pub use schema::{
    ArgumentCheck, PathSegment, TextFormat, UnusableSchema, ValidationError, path_label,
};
pub use server_task::{ServerTask, TaskCapability, TaskKind, TaskState};
pub use stamp::{Mono, Stamp, Wall, millis};
pub use status::{
    Connectivity, ControlKind, ControlRequest, LostReason, Resumability, Resumable, Status,
    UnknownReason,
};
pub use sync::locked;
pub use task_action::{ActionRefusal, ServerSupport};
pub use timeline::{Activity, Milestone, Period, Turn, milestone, periods};
pub use tool::{CLIENT_ID, CheckpointConvention, TaskSupport, Tool, ToolHeaderError};
pub use traffic::{Direction, TrafficEntry, TrafficKind};
pub use view::{LinkState, ServerView, TaskView, unsaved_reason};
