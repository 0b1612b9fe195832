//! The jobs of a program that a server runs: `only` these, all `except` those.

use asynq_grammar::{Pattern, names::check_job, nearest};

use super::error::ServerError;

/// The mistake of an option or a flag that restricts a server to no job.
pub(crate) const NO_JOB: &str = "it names no job: name those to run, or leave it out to run all";

/// Names and patterns of jobs, as they were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// `None` where all jobs run.
    pub(crate) only: Option<Vec<String>>,
    pub(crate) except: Vec<String>,
}

/// A [`Choice`] whose names and patterns were checked.
#[derive(Debug)]
pub(crate) struct Chosen {
    only: Vec<Pattern>,
    except: Vec<Pattern>,
}

impl Choice {
    /// Returns whether there is no choice, so that everything runs.
    pub(crate) fn is_everything(&self) -> bool {
        self.only.is_none() && self.except.is_empty()
    }

    /// Checks the choice against the names of the program's jobs and handlers.
    ///
    /// # Errors
    ///
    /// A name that no job has, with the one that may be meant; a pattern that matches no job; no job is left; or `only` was given
    /// without a name.
    pub(crate) fn check(&self, names: &[&str]) -> Result<Chosen, ServerError> {
        let only = self.only.as_deref();
        if only.is_some_and(<[_]>::is_empty) {
            return Err(ServerError::option("only", NO_JOB));
        }
        let only = read("only", only.unwrap_or_default(), names)?;
        let chosen = Chosen { only, except: read("except", &self.except, names)? };
        if !names.is_empty() && !names.iter().any(|name| chosen.keeps(name)) {
            return Err(ServerError::option("except", "it leaves no job to run"));
        }
        Ok(chosen)
    }
}

impl Chosen {
    /// Returns whether the job of this name runs.
    pub(crate) fn keeps(&self, name: &str) -> bool {
        let is_in = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(name));
        (self.only.is_empty() || is_in(&self.only)) && !is_in(&self.except)
    }
}

fn read(option: &'static str, given: &[String], names: &[&str]) -> Result<Vec<Pattern>, ServerError> {
    let one = |text: &String| {
        let pattern = Pattern::new(text, check_job).map_err(|why| ServerError::option(option, why))?;
        if names.iter().any(|name| pattern.matches(name)) {
            return Ok(pattern);
        }
        let hint = match nearest(text, names.iter().copied()) {
            Some(name) => format!("; did you mean `{name}`?"),
            None => format!("; there are {}", names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")),
        };
        let what = if pattern.is_exact() { "this program has no job" } else { "no job of this program fits" };
        Err(ServerError::option(option, format!("{what} `{text}`{hint}")))
    };
    given.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["mail:bye", "mail:welcome", "report", "resize"];

    fn chosen(only: &[&str], except: &[&str]) -> Result<Vec<&'static str>, String> {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let choice = Choice { only: (!only.is_empty()).then(|| owned(only)), except: owned(except) };
        let chosen = choice.check(&NAMES).map_err(|error| error.to_string())?;
        Ok(NAMES.into_iter().filter(|name| chosen.keeps(name)).collect())
    }

    #[test]
    fn only_names_what_runs_and_except_what_does_not() {
        let table: [(&[&str], &[&str], &[&str]); 5] = [
            (&[], &[], &NAMES),
            (&["report", "resize"], &[], &["report", "resize"]),
            (&["mail:*"], &[], &["mail:bye", "mail:welcome"]),
            (&[], &["mail:*"], &["report", "resize"]),
            (&["mail:*", "report"], &["mail:bye"], &["mail:welcome", "report"]),
        ];
        for (only, except, expected) in table {
            assert_eq!(chosen(only, except).as_deref(), Ok(expected), "{only:?} {except:?}");
        }
    }

    #[test]
    fn the_error_of_an_invalid_choice_suggests_a_name() {
        let table: [(&[&str], &[&str], &str); 6] = [
            (&["resise"], &[], "invalid option `only`: this program has no job `resise`; did you mean `resize`?"),
            (&[], &["reports"], "invalid option `except`: this program has no job `reports`; did you mean `report`?"),
            (&["cleanup"], &[], "no job `cleanup`; there are `mail:bye`, `mail:welcome`, `report`, `resize`"),
            (&["sms:*"], &[], "no job of this program fits `sms:*`"),
            (&[" "], &[], "must not be"),
            (&[], &["*"], "it leaves no job to run"),
        ];
        for (only, except, expected) in table {
            let error = chosen(only, except).unwrap_err();
            assert!(error.contains(expected), "{error}\n  should contain\n{expected}");
        }
    }
}
