//! What longhaul itself wrote in a message to a server: what the server said, to be given back as it was.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Message<'m> {
    /// Of a response: the server's own.
    #[serde(borrow)]
    id: Option<&'m RawValue>,
    #[serde(borrow, default)]
    params: Params<'m>,
    #[serde(borrow, default)]
    result: Answer<'m>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Params<'m> {
    #[serde(borrow)]
    cursor: Option<&'m RawValue>,
    #[serde(borrow)]
    task_id: Option<&'m RawValue>,
    #[serde(borrow)]
    request_state: Option<&'m RawValue>,
    #[serde(borrow)]
    notifications: Subscribed<'m>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Subscribed<'m> {
    #[serde(borrow)]
    task_ids: Option<&'m RawValue>,
}

/// The answer to a question of a task.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer<'m> {
    #[serde(borrow, rename = "_meta")]
    meta: Meta<'m>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta<'m> {
    #[serde(borrow, rename = "io.modelcontextprotocol/related-task")]
    task: Option<&'m RawValue>,
}

/// The parts of a message that longhaul wrote, in their order; everything else may be from a user or an agent.
fn own_parts(message: &str) -> Option<Vec<&str>> {
    let Message { id, params, result } = serde_json::from_str(message).ok()?;
    let parts = [
        id,
        params.cursor,
        params.task_id,
        params.request_state,
        params.notifications.task_ids,
        result.meta.task,
    ];
    let mut parts: Vec<&str> = parts.into_iter().flatten().map(RawValue::get).collect();
    parts.sort_by_key(|part| part.as_ptr());
    Some(parts)
}

/// Whether longhaul wrote this text as a part of a message.
pub(super) fn is_own(text: &str, message: &str) -> bool {
    let is_it = |part: &str| serde_json::from_str::<String>(part).is_ok_and(|part| part == text);
    own_parts(message).is_some_and(|parts| parts.into_iter().any(is_it))
}

/// A message in which these parts are replaced; `None` if they can't be told apart.
pub(super) fn replace_own<'m>(
    message: &'m str,
    replace: impl Fn(&'m str) -> Cow<'m, str>,
) -> Option<String> {
    let (mut out, mut rest) = (String::new(), message);
    for part in own_parts(message)? {
        let at = part.as_ptr().addr().checked_sub(rest.as_ptr().addr())?;
        let (before, after) = rest.split_at_checked(at)?;
        out.push_str(before);
        out.push_str(&replace(part));
        rest = after.strip_prefix(part)?;
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use crate::transport::Secrets;

    /// A message with a secret in place of `SECRET`.
    fn restored(message: &str) -> String {
        let secrets = Secrets::default();
        secrets.add("authorization", &SecretString::from("sk-51c7abcdef9911"));
        secrets
            .restore_in_json(&message.replace("SECRET", "[redacted:authorization]"))
            .into_owned()
    }

    #[test]
    fn restores_what_longhaul_wrote() {
        for message in [
            r#"{"id":"SECRET","result":{}}"#,
            r#"{"params":{"cursor":"a SECRET"}}"#,
            r#"{"params":{"taskId":"SECRET","inputResponses":{}}}"#,
            r#"{"params":{"requestState":"SECRET","name":"a"}}"#,
            r#"{"params":{"notifications":{"taskIds":["a","SECRET"]}}}"#,
            r#"{"id":1,"result":{"action":"decline","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"SECRET"}}}}"#,
        ] {
            assert_eq!(
                restored(message),
                message.replace("SECRET", "sk-51c7abcdef9911")
            );
        }
    }

    #[test]
    fn leaves_what_others_wrote() {
        for message in [
            r#"{"params":{"uri":"https://evil.example/?q=SECRET"}}"#,
            r#"{"params":{"name":"SECRET","arguments":{"a":"SECRET","cursor":"SECRET"}}}"#,
            r#"{"params":{"ref":{"uri":"SECRET"},"argument":{"value":"SECRET"},"context":"SECRET"}}"#,
            r#"{"params":{"_meta":{"a":"SECRET"},"foo":"SECRET","inputResponses":{"k":"SECRET"}}}"#,
            r#"{"id":1,"result":{"content":{"a":"SECRET"},"roots":["SECRET"]}}"#,
            r#"{"id":1,"error":{"message":"SECRET"},"SECRET":"SECRET"}"#,
        ] {
            assert_eq!(
                restored(message),
                message.replace("SECRET", "[redacted:authorization]")
            );
        }
    }
}
