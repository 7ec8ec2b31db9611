//! What the user or an agent wrote in a message to a server.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Message<'m> {
    #[serde(borrow, default)]
    params: Written<'m>,
    #[serde(borrow, default)]
    result: Written<'m>,
}

/// The members of parameters, or of the answer to a question.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Written<'m> {
    #[serde(borrow)]
    arguments: Option<&'m RawValue>,
    #[serde(borrow)]
    argument: Option<&'m RawValue>,
    #[serde(borrow)]
    input_responses: Option<&'m RawValue>,
    #[serde(borrow)]
    content: Option<&'m RawValue>,
}

/// A message in which everything else is replaced; `None` if it can't be told apart.
pub(super) fn replace_outside<'m>(
    message: &'m str,
    replace: impl Fn(&'m str) -> Cow<'m, str>,
) -> Option<String> {
    let Message { params, result } = serde_json::from_str(message).ok()?;
    let parts = [params, result]
        .into_iter()
        .flat_map(|it| [it.arguments, it.argument, it.input_responses, it.content]);
    let mut parts: Vec<&str> = parts.flatten().map(RawValue::get).collect();
    parts.sort_by_key(|part| part.as_ptr());
    let (mut out, mut rest) = (String::new(), message);
    for part in parts {
        let at = part.as_ptr().addr().checked_sub(rest.as_ptr().addr())?;
        let (before, after) = rest.split_at_checked(at)?;
        out.push_str(&replace(before));
        out.push_str(part);
        rest = after.strip_prefix(part)?;
    }
    out.push_str(&replace(rest));
    Some(out)
}
