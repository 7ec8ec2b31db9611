//! What a server of the modern era asks before it answers `prompts/get` or `resources/read`, for a host that is asked by
//! requests (MCP 2026-07-28, basic/patterns/mrtr). A modern host answers in rounds itself.

use super::{Proxy, asked::ForwardedRequest};
use crate::{
    domain::{Forwarded, QuestionKind},
    proxy::{
        era::REQUEST_STATE,
        message,
        questions::{Relayed, Round},
        raw::{self, RawMembers},
    },
};

/// The methods that a server may answer with questions, beside `tools/call`.
const METHODS: [&str; 2] = ["prompts/get", "resources/read"];

/// How often a server may ask before it answers one request.
const ROUNDS: u32 = 20;

impl Proxy {
    /// Whether the host can be asked something during a request with this method.
    pub(super) fn takes_rounds(&self, method: &str) -> bool {
        !self.host.is_modern && self.is_server_modern() && METHODS.contains(&method)
    }

    /// Asks the host what the server asks in the result of a request. Returns whether it asks something.
    pub(super) fn begins_round(&mut self, request: &ForwardedRequest, result: &str) -> bool {
        let ForwardedRequest {
            id, method, rounds, ..
        } = request;
        let Some(params) =
            (request.params.as_ref()).filter(|_| result.contains("\"input_required\""))
        else {
            return false;
        };
        if raw::text(result, "resultType").as_deref() != Some("input_required") {
            return false;
        }
        if *rounds >= ROUNDS {
            let words = format!("the server asked {ROUNDS} times and gave no answer");
            self.refuse(id, message::SERVER_ERROR, &words);
            return true;
        }
        let mut params = RawMembers::parse(params).unwrap_or_default();
        params.remove("inputResponses");
        match raw::member(result, REQUEST_STATE) {
            Some(state) => params.set(REQUEST_STATE, state),
            None => params.remove(REQUEST_STATE),
        }
        let mut shown = Vec::new();
        for (key, request) in raw::members(raw::member(result, "inputRequests")) {
            let asked: Option<String> = raw::text(request.get(), "method");
            let asked = asked.unwrap_or_default();
            let params = raw::member(request.get(), "params").unwrap_or("{}");
            let kind = QuestionKind::of_method(&asked);
            let params = kind.and_then(|kind| Some((kind, self.shown(kind, params)?)));
            let Some((kind, params)) = params else {
                let words = format!("the server asks for {asked}, which this host can't answer");
                self.refuse(id, message::SERVER_ERROR, &words);
                return true;
            };
            shown.push((key, kind, params));
        }
        self.next_round += 1;
        let number = self.next_round;
        self.rounds.insert(
            number,
            Round {
                id: id.clone(),
                method: method.clone(),
                params,
                rounds: rounds + 1,
                waiting: shown.iter().map(|(key, ..)| key.clone()).collect(),
                responses: RawMembers::default(),
            },
        );
        for (key, kind, params) in shown {
            self.ask_host(Relayed::Round { number, key }, kind.method(), &params);
        }
        self.end_round(number);
        true
    }

    /// The host has answered a question of a round.
    pub(super) fn round_answered(&mut self, number: u64, key: &str, outcome: &Forwarded) {
        let Some(round) = self.rounds.get_mut(&number) else {
            return;
        };
        match outcome {
            Forwarded::Result(response) => {
                round.waiting.remove(key);
                round.responses.set(key, response);
                self.end_round(number);
            }
            // A round has no errors, and the server does not wait.
            Forwarded::Error(error) => {
                let id = round.id.clone();
                self.remove_round(number);
                let why = raw::text(error, "message");
                let words = format!(
                    "the host refused: {}",
                    why.as_deref().unwrap_or("no reason")
                );
                self.refuse(&id, message::SERVER_ERROR, &words);
            }
        }
    }

    /// The host does not wait for a request any more.
    pub(super) fn cancel_rounds(&mut self, id: &str) {
        let of_request = self.rounds.iter().filter(|(_, round)| round.id == id);
        let numbers: Vec<u64> = of_request.map(|(number, _)| *number).collect();
        for number in numbers {
            self.remove_round(number);
        }
    }

    /// Removes a round, and takes back what the host was asked for it.
    fn remove_round(&mut self, removed: u64) {
        self.rounds.remove(&removed);
        let is_of_round = |relayed: &Relayed| matches!(relayed, Relayed::Round { number, .. } if *number == removed);
        self.withdraw("no longer needed", is_of_round);
    }

    /// Sends the request again once nothing is waited for.
    fn end_round(&mut self, number: u64) {
        let round = self.rounds.get(&number);
        if round.is_some_and(|round| !round.waiting.is_empty()) {
            return;
        }
        if let Some(mut round) = self.rounds.remove(&number) {
            if !round.responses.is_empty() {
                let responses = round.responses.to_string();
                round.params.set("inputResponses", &responses);
            }
            let params = round.params.to_string();
            self.forward(round.rounds, round.id, &round.method, params);
        }
    }
}
