//! Digests of what the user approved: the headers sent to an imported server, or the program of a stdio server.

use std::fmt::Write as _;

use itertools::Itertools as _;
use ring::digest::{Context, SHA256};

use crate::domain::{Program, Template};

/// The digest of a URL and its headers; another host, header or variable changes it.
pub(crate) fn digest(url: &str, headers: &[(String, Template)]) -> String {
    let headers = headers.iter();
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()));
    let sorted: Vec<(String, &str)> = headers.sorted().collect();
    let parts = sorted
        .iter()
        .flat_map(|(name, value)| [name.as_str(), value]);
    of_parts(["longhaul headers 1", url].into_iter().chain(parts))
}

/// The digest of a program; another argument, variable or directory changes it.
pub(crate) fn digest_of_program(program: &Program) -> String {
    let env = program.env.iter();
    let env = env.map(|(name, value)| (name.as_str(), value.as_str()));
    let args = program.args.iter().flat_map(|arg| ["argument", arg]);
    let env = env
        .sorted()
        .flat_map(|(name, value)| ["variable", name, value]);
    let cwd = program.cwd.iter().flat_map(|cwd| ["directory", cwd]);
    let parts = args.chain(env).chain(cwd);
    of_parts(
        ["longhaul program 1", &program.command]
            .into_iter()
            .chain(parts),
    )
}

fn of_parts<'p>(parts: impl Iterator<Item = &'p str>) -> String {
    let mut hash = Context::new(&SHA256);
    for part in parts {
        // The length keeps two different lists from hashing the same bytes.
        hash.update(&part.len().to_be_bytes());
        hash.update(part.as_bytes());
    }
    let mut text = "sha256:".to_owned();
    for byte in hash.finish().as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_digest_covers_arguments_variables_directory() {
        let program = Program {
            command: "npx".to_owned(),
            args: vec!["-y".to_owned(), "x".to_owned()],
            env: vec![("A".to_owned(), Template::parse("${A}").unwrap())],
            cwd: None,
        };
        let approved = digest_of_program(&program);
        let with = |change: fn(&mut Program)| {
            let mut other = program.clone();
            change(&mut other);
            digest_of_program(&other)
        };
        assert_eq!(approved, with(|_| {}));
        let changes: [fn(&mut Program); 7] = [
            |it| it.command.push('x'),
            |it| it.args.reverse(),
            |it| it.args.push(String::new()),
            |it| it.args = vec!["-y x".to_owned()],
            |it| it.env[0].0.push('B'),
            |it| it.env[0].1 = Template::parse("${B}").unwrap(),
            |it| it.cwd = Some(String::new()),
        ];
        for change in changes {
            assert_ne!(approved, with(change));
        }
    }

    #[test]
    fn header_digest_covers_host_header_and_variable() {
        let of = |url: &str, name: &str, value: &str| {
            digest(url, &[(name.to_owned(), Template::parse(value).unwrap())])
        };
        let agreed = of("https://a.example/mcp", "Authorization", "Bearer ${A}");
        assert_eq!(agreed.len(), "sha256:".len() + 64);
        assert_eq!(
            agreed,
            of("https://a.example/mcp", "authorization", "Bearer ${A}")
        );
        for other in [
            of("https://b.example/mcp", "Authorization", "Bearer ${A}"),
            of("https://a.example/mcp", "X", "Bearer ${A}"),
            of("https://a.example/mcp", "Authorization", "Bearer ${B}"),
            of("https://a.example/mcpauthorization", "", "Bearer ${A}"),
        ] {
            assert_ne!(agreed, other);
        }
    }
}
