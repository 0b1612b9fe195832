//! The resources of a command: the broker, opened when it is first needed; the output; the user to ask.

use std::io::{self, Read, Write as _};

use asynq_runtime::{
    Client, DEFAULT_URL, Inspector, URL_VARIABLE,
    app::{text_of_variable, usage_without_passwords, without_passwords},
    broker::BrokerErrorKind,
};
use clap::Args;
use serde::Serialize;

use crate::{
    broker_flags::BrokerFlags,
    environment::{Environment, Input, Stop},
    error::CliError,
    show::{self, Style},
};

/// One run of one command.
#[derive(Debug)]
pub(crate) struct Session {
    environment: Environment,
    options: Options,
}

/// Options that every command understands.
#[derive(Debug, Default, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    broker: BrokerFlags,
    /// Writes JSON for programs instead of tables for people
    #[arg(long, global = true)]
    json: bool,
    /// Does not ask before something is deleted or changed for good
    #[arg(short, long, global = true)]
    yes: bool,
}

impl Session {
    pub(crate) fn new(options: Options, environment: Environment) -> Self {
        Self { environment, options }
    }

    /// Returns a client of the broker that flags or environment name. A SQLite file must exist: looking must not create one. A Redis that
    /// may evict keys is a warning, because workers that run use it, too, and must be seen.
    pub(crate) async fn client(&mut self) -> Result<Client, CliError> {
        let url = self.url()?;
        let refused = match self.connect_to(&url, false).await {
            Err(CliError::Open(error)) if error.kind() == BrokerErrorKind::Config => error,
            opened => return opened,
        };
        // The two URLs differ in this parameter alone: where it is enough, the eviction was the reason.
        let Ok(client) = self.connect_to(&allowing_eviction(url), false).await else {
            return Err(CliError::Open(refused));
        };
        self.note(&format!("warning: {refused}"));
        Ok(client)
    }

    /// Returns a client for a command that puts a task in: it takes no Redis that may evict the task. With `may_be_new` the command may
    /// be the first to use a SQLite file.
    pub(crate) async fn client_to_enqueue(&mut self, may_be_new: bool) -> Result<Client, CliError> {
        self.connect_to(&self.url()?, may_be_new).await
    }

    /// Returns a client as [`client`](Self::client) does, without its warning: a Redis that may evict keys is a finding.
    pub(crate) async fn client_for_doctor(&mut self) -> Result<Client, CliError> {
        let url = allowing_eviction(self.url()?);
        self.connect_to(&url, false).await
    }

    /// Returns whether the URL takes a Redis that may evict keys.
    pub(crate) fn allows_eviction(&self) -> bool {
        self.url().is_ok_and(|url| url.contains("allow_eviction=true"))
    }

    /// Returns an inspector, which looks and repairs.
    pub(crate) async fn inspector(&mut self) -> Result<Inspector, CliError> {
        Ok(self.client().await?.inspector())
    }

    /// Returns whether the whole broker does not answer, and not only a part of it.
    pub(crate) async fn is_broker_away(&mut self) -> bool {
        match self.client().await {
            Ok(client) => client.broker().ping().await.is_err_and(|error| error.is_unavailable()),
            Err(_) => true,
        }
    }

    async fn connect_to(&mut self, url: &str, may_be_new: bool) -> Result<Client, CliError> {
        if let Some(client) = &self.environment.client {
            return Ok(client.clone());
        }
        let opened = if may_be_new { Client::connect(url).await } else { Client::connect_existing(url).await };
        let client = opened.map_err(CliError::Open)?;
        self.environment.client = Some(client.clone());
        Ok(client)
    }

    /// Returns the broker's URL: a flag, the environment, or the worker's default.
    pub(crate) fn url(&self) -> Result<String, CliError> {
        let text = |name: &str| {
            let value = (self.environment.variable)(name);
            text_of_variable(value).map_err(|reason| CliError::Usage(format!("{name}: {reason}")))
        };
        if let Some(url) = self.options.broker.url()? {
            // Go's tool would join the flags and its variables; Go's default instead would silently be another broker.
            for name in [URL_VARIABLE, "URI", "CLUSTER_ADDRS"] {
                if !self.options.broker.name_a_host() && text(name)?.is_some() {
                    return Err(CliError::Usage(format!(
                        "the flags name no host, which means this one, and {name} is set; write it all in one URL: \
                         --url redis://LOGIN@HOST:PORT/DB, where LOGIN is USER:PASSWORD"
                    )));
                }
            }
            return Ok(url);
        }
        if let Some(url) = text(URL_VARIABLE)? {
            return Ok(url);
        }
        // Go's tool would use these; the worker's default instead would silently be another broker.
        for name in ["URI", "CLUSTER_ADDRS"] {
            if text(name)?.is_some() {
                return Err(CliError::Usage(format!(
                    "{name} is a variable of Go's tool; write {URL_VARIABLE}=redis://HOST:PORT/DB \
                     (redis-cluster://H1,H2 for a cluster), or --url {DEFAULT_URL} if that is meant"
                )));
            }
        }
        Ok(DEFAULT_URL.to_owned())
    }

    /// Returns the style of tables.
    pub(crate) fn style(&self) -> Style {
        Style { colours: self.environment.colours && !self.options.json, width: self.environment.width }
    }

    /// Returns whether there is a user in front of a terminal, to see the output and to press keys.
    pub(crate) fn is_on_a_terminal(&self) -> bool {
        self.environment.width.is_some() && matches!(self.environment.input, Input::Terminal(_))
    }

    /// Returns whether a program reads the answer.
    pub(crate) fn is_json(&self) -> bool {
        self.options.json
    }

    /// Writes the answer: `value` for a program, else `text` for people. The text may hold names from outside: the
    /// caller has removed control characters already, as tables do.
    pub(crate) fn answer(
        &mut self,
        value: &impl Serialize,
        text: impl FnOnce(Style) -> String,
    ) -> Result<(), CliError> {
        let text = if self.options.json { show::json(value)? } else { text(self.style()) };
        self.write(&text)
    }

    /// Writes to standard output.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), CliError> {
        let out = &mut self.environment.out;
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(CliError::system("cannot write the answer"))
    }

    /// Writes a usage error, or the help that was asked for.
    pub(crate) fn write_usage(&mut self, usage: &clap::Error) -> Result<(), CliError> {
        // The text repeats arguments, and a name among them may hold an escape sequence.
        let text = show::clean_lines(&usage_without_passwords(&usage.render().to_string()));
        if !usage.use_stderr() {
            return self.write(&text);
        }
        let err = &mut self.environment.err;
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
        Err(CliError::Reported(CliError::USAGE))
    }

    /// Writes a line for people to standard error; it is cleaned here, and passwords in URLs are hidden.
    pub(crate) fn note(&mut self, line: &str) {
        self.write_line(&without_passwords(line));
    }

    fn write_line(&mut self, line: &str) {
        let line = show::clean(line);
        let _ = writeln!(self.environment.err, "{line}").and_then(|()| self.environment.err.flush());
    }

    /// Writes an error to standard error, and returns its exit code.
    pub(crate) fn report(&mut self, error: &CliError) -> u8 {
        self.write_line(&format!("error: {}", error.line()));
        error.exit_code()
    }

    /// Writes an error to standard error behind its subject, which its text does not have, and returns its exit code.
    pub(crate) fn report_of(&mut self, subject: &str, error: &CliError) -> u8 {
        self.write_line(&format!("error: {subject}: {}", error.line()));
        error.exit_code()
    }

    /// Returns whether a bar may be drawn.
    pub(crate) fn has_bars(&self) -> bool {
        self.environment.bars && !self.options.json
    }

    /// Returns a future that ends when the command should stop.
    pub(crate) fn stop(&self) -> Stop {
        (self.environment.stop)()
    }

    /// Asks unless `--yes` was given; fails unless the answer is yes.
    pub(crate) fn confirm(&mut self, question: &str) -> Result<(), CliError> {
        if self.options.yes { Ok(()) } else { self.ask(question, "--yes") }
    }

    /// Asks, even if `--yes` was given. A script answers with these `flags` instead.
    pub(crate) fn ask(&mut self, question: &str, flags: &'static str) -> Result<(), CliError> {
        let Input::Terminal(input) = &mut self.environment.input else {
            return Err(CliError::Unasked { question: question.to_owned(), flags });
        };
        let mut answer = String::new();
        let err = &mut self.environment.err;
        let written = write!(err, "{} [y/N] ", show::clean(&without_passwords(question))).and_then(|()| err.flush());
        // A question whose reader went away is a failure, unlike an answer: the wrapper hides the kind of the error.
        written.and_then(|()| io::BufRead::read_line(input, &mut answer)).map_err(|source| CliError::System {
            context: "cannot ask".into(),
            source: std::io::Error::other(source),
        })?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(CliError::Declined),
        }
    }

    /// Reads standard input as [`read_beyond`] does.
    pub(crate) fn read_input(&mut self, limit: usize) -> Result<Vec<u8>, CliError> {
        let read = match &mut self.environment.input {
            Input::Terminal(input) => read_beyond(limit, input),
            Input::Piped(input) => read_beyond(limit, input),
        };
        read.map_err(CliError::system("cannot read standard input"))
    }

    /// Reads one line: of a pipe at most `limit` + 1 bytes, at a terminal after a question and without showing the keys. A line
    /// that is typed is asked for twice, because the user cannot see a slip.
    pub(crate) async fn read_secret(&mut self, question: &str, limit: usize) -> Result<String, CliError> {
        let bytes = match self.environment.input {
            Input::Piped(_) => self.read_input(limit)?,
            Input::Terminal(_) => {
                // A signal without a handler would leave the terminal without echo.
                let stop = self.stop();
                let typed = tokio::select! {
                    typed = self.type_twice(question) => typed,
                    () = stop => {
                        self.note("");
                        Err(stopped_at_the_question())
                    }
                };
                typed?.into_bytes()
            }
        };
        match String::from_utf8(bytes) {
            Ok(text) => Ok(text.lines().next().unwrap_or_default().to_owned()),
            Err(_) => Err(CliError::Usage("standard input is not UTF-8 text".into())),
        }
    }

    async fn type_twice(&mut self, question: &str) -> Result<String, CliError> {
        let typed = self.type_without_echo(question).await?;
        if !typed.is_empty() && self.type_without_echo("Once more: ").await? != typed {
            return Err(CliError::Usage("the two lines differ: type the same twice".into()));
        }
        Ok(typed)
    }

    async fn type_without_echo(&mut self, question: &str) -> Result<String, CliError> {
        let _ = write!(self.environment.err, "{question}").and_then(|()| self.environment.err.flush());
        let typed = (self.environment.type_without_echo)().await;
        self.note("");
        typed.map_err(|source| match source.kind() {
            io::ErrorKind::Interrupted => stopped_at_the_question(),
            _ => CliError::System { context: "cannot ask".into(), source },
        })
    }

    /// Reports the result of the command, closes the broker, and returns the exit code.
    pub(crate) async fn end(mut self, ended: Result<(), CliError>) -> u8 {
        let code = match ended {
            Ok(()) => 0,
            Err(error) if error.is_broken_pipe() => 0,
            Err(CliError::Reported(code)) => code,
            Err(error) => self.report(&error),
        };
        if let Some(client) = self.environment.client.take() {
            client.broker().close().await;
        }
        code
    }
}

/// Reads up to `limit` bytes and one more, by which the caller sees that there are more.
pub(crate) fn read_beyond(limit: usize, from: impl Read) -> io::Result<Vec<u8>> {
    let limit = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    from.take(limit).read_to_end(&mut bytes).map(|_| bytes)
}

fn stopped_at_the_question() -> CliError {
    CliError::Stopped("stopped at the question".into())
}

/// Returns the URL of a Redis with `allow_eviction=true`, unless it sets that parameter already.
fn allowing_eviction(url: String) -> String {
    if !url.starts_with("redis") || url.contains("allow_eviction=") {
        return url;
    }
    let sign = if url.contains('?') { '&' } else { '?' };
    format!("{url}{sign}allow_eviction=true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doctor_looks_at_a_redis_that_may_evict() {
        for (url, expected) in [
            ("redis://h", "redis://h?allow_eviction=true"),
            ("rediss://h/1?ca=x", "rediss://h/1?ca=x&allow_eviction=true"),
            ("redis://h?allow_eviction=false", "redis://h?allow_eviction=false"),
            ("sqlite://a.db", "sqlite://a.db"),
        ] {
            assert_eq!(allowing_eviction(url.to_owned()), expected);
        }
    }
}
