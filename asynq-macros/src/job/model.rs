//! The facts about one job; from here on nothing can fail.

use std::time::Duration;

use asynq_grammar::nearest;
use quote::{ToTokens, quote};
use syn::{Attribute, FnArg, Ident, Type, Visibility, ext::IdentExt, parse_quote};

use super::{
    attr::Attr,
    literal::within,
    parameter::{Argument, Form, Parameter, is_mark, moves_to_field},
    setting::{Setting, UniqueUntil},
    signature::{JobSignature, is_job},
};
use crate::{
    errors::Errors,
    item::Item,
    paths::{Home, Paths},
};

/// Everything that is needed to print a job.
pub(super) struct JobModel {
    /// The function as it will be printed.
    pub(super) function: Item,
    /// The name on the wire.
    pub(super) name: String,
    /// The options that are written.
    pub(super) attr: Attr,
    pub(super) signature: JobSignature,
    /// The arguments that make two tasks equal; `None` means all of them.
    pub(super) unique_by: Option<Vec<Ident>>,
    pub(super) paths: Paths,
}

impl JobModel {
    /// Combines the attribute and the signature, and records where they contradict each other.
    pub(super) fn new(
        mut function: Item,
        mut attr: Attr,
        signature: JobSignature,
        home: Home,
        errors: &Errors,
    ) -> Self {
        check_unique(&attr, errors);
        check_debounce(&attr, errors);
        check_jitter(&attr, errors);
        check_fingerprint(&attr, errors);
        check_contract(&mut attr, &signature, errors);
        check_kill_after(&attr, &signature, errors);
        check_on_error(&mut attr, &signature, errors);
        check_aggregates(&mut attr, &signature, errors);
        let unique_by = attr.unique_by.as_ref().and_then(|setting| unique_by(setting, &signature.parameters, errors));
        // An attribute of serde and a derive were refused, and the compiler knows none of a function.
        let was_refused = |attr: &Attribute| attr.path().is_ident("serde") || attr.path().is_ident("derive");
        function.attrs.retain(|attr| !is_job(attr) && !was_refused(attr));
        // Inside of a `cfg_attr`, which was refused, is often serde's attribute, and the compiler knows none of a function.
        function.strip_parameters(|attr| moves_to_field(attr) || is_mark(attr) || attr.path().is_ident("cfg_attr"));
        let types = function.sig.inputs.iter_mut().filter_map(|input| match input {
            FnArg::Typed(typed) => Some(&mut typed.ty),
            FnArg::Receiver(_) => None,
        });
        for (ty, parameter) in types.zip(&signature.parameters) {
            if let Parameter::Incomplete { error, .. } = parameter {
                **ty = Type::Verbatim(error.to_compile_error());
                // The compiler would report each use in the body of a parameter without a type.
                function.body = quote!({ ::std::unimplemented!() });
                function.attrs.push(parse_quote!(#[allow(unused)]));
            }
        }
        let ident = function.sig.ident.unraw();
        Self {
            name: attr.name.as_deref().cloned().unwrap_or_else(|| ident.to_string()),
            unique_by,
            paths: Paths::new(home, attr.crate_path.as_deref(), attr.cron_crate.as_deref()),
            attr,
            signature,
            function,
        }
    }

    pub(super) fn ident(&self) -> &Ident {
        &self.function.sig.ident
    }

    pub(super) fn vis(&self) -> &Visibility {
        &self.function.vis
    }

    pub(super) fn parameters(&self) -> &[Parameter] {
        &self.signature.parameters
    }

    /// Returns the arguments, which are stored, in the order of the signature.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &Argument> {
        arguments(self.parameters())
    }

    /// Returns the function's attributes that hold for everything that is generated beside it.
    pub(super) fn shared_attrs(&self) -> impl Iterator<Item = &Attribute> {
        self.attrs_named(&["allow"])
    }

    /// Returns the function's attributes that the struct has besides.
    pub(super) fn struct_attrs(&self) -> impl Iterator<Item = &Attribute> {
        self.attrs_named(&["deprecated", "doc"])
    }

    /// Returns whether the function's result is the job's, with nothing between them.
    pub(super) fn is_direct(&self) -> bool {
        let may_lack = self.parameters().iter().any(Parameter::is_supplied_by_value);
        !self.signature.is_blocking && !may_lack && self.attr.on_error.is_none() && !self.signature.is_contract
    }

    fn attrs_named(&self, names: &'static [&'static str]) -> impl Iterator<Item = &Attribute> {
        self.function.attrs.iter().filter(|attr| names.iter().any(|name| attr.path().is_ident(name)))
    }
}

fn arguments(parameters: &[Parameter]) -> impl Iterator<Item = &Argument> {
    parameters.iter().filter_map(Parameter::argument)
}

fn check_unique(attr: &Attr, errors: &Errors) {
    let until_start = attr.unique_until.as_ref().is_some_and(|setting| setting.value == UniqueUntil::Start);
    if let Some(extend) = attr.unique_extend.as_ref().filter(|setting| setting.value && until_start) {
        let message = "`unique_until = \"start\"` frees the lock before there is a run to extend it; leave one out";
        errors.at(extend.position, &extend.key, message);
    }
    if attr.mentions("unique") || attr.mentions("debounce") {
        return;
    }
    let keys = [
        attr.unique_by.as_ref().map(|setting| (&setting.key, setting.position)),
        attr.unique_until.as_ref().map(|setting| (&setting.key, setting.position)),
        attr.unique_extend.as_ref().map(|setting| (&setting.key, setting.position)),
    ];
    for (key, position) in keys.into_iter().flatten() {
        errors.at(position, key, format_args!("`{key}` needs `unique`: say for how long, as in `unique = \"1h\"`"));
    }
}

/// Refuses `debounce` with a group or a schedule: a debounced task waits by itself, and callers enqueue it again and again.
fn check_debounce(attr: &Attr, errors: &Errors) {
    if let Some(most) = attr.debounce_max.as_ref().filter(|_| !attr.mentions("debounce")) {
        let message = "`debounce_max` needs `debounce`: say how long it has to be quiet, as in `debounce = \"30s\"`";
        errors.at(most.position, &most.key, message);
    }
    let Some(debounce) = &attr.debounce else { return };
    if let Some((end, _)) = ends(attr).find(|(_, after)| debounce.value >= *after) {
        let message = format!("`debounce` must be shorter than `{end}`, which counts from the enqueue, too");
        errors.at(debounce.position, &debounce.key, message);
    }
    if let Some(most) = attr.debounce_max.as_ref().filter(|most| most.value < debounce.value) {
        errors.at(most.position, &most.key, "`debounce_max` must be at least as long as `debounce`");
    }
    if attr.group.is_some() {
        let message = "a task in a group waits for others and not for its time; leave `debounce` or `group` out";
        errors.at(debounce.position, &debounce.key, message);
    }
    if let Some(until) = attr.unique_until.as_ref().filter(|setting| setting.value == UniqueUntil::Start) {
        let message = "an attempt without a lock is not found, and could run again with older arguments than the last; leave \
                       `unique_until = \"start\"` or `debounce` out";
        errors.at(until.position, &until.key, message);
    }
    if attr.schedule.is_there() {
        let message = "a periodic job runs when its schedule says; leave `debounce` out";
        errors.at(debounce.position, &debounce.key, message);
    }
}

/// Returns the options after whose time a task is not started any more.
fn ends(attr: &Attr) -> impl Iterator<Item = (&'static str, Duration)> {
    let expires = attr.expires.as_ref().map(|setting| ("expires", setting.value));
    let deadline = attr.deadline.as_ref().map(|setting| ("deadline", setting.value));
    expires.into_iter().chain(deadline)
}

/// Refuses a jitter that may defer a tick until its task is not started any more.
fn check_jitter(attr: &Attr, errors: &Errors) {
    let Some(jitter) = &attr.schedule.jitter else { return };
    if let Some((end, _)) = ends(attr).find(|(_, after)| jitter.value >= *after) {
        let message = format!("`jitter` must be shorter than `{end}`, which counts from when the tick is sent");
        errors.at(jitter.position, &jitter.key, message);
    }
}

fn check_fingerprint(attr: &Attr, errors: &Errors) {
    if let Some(fingerprint) = attr.fingerprint.as_ref().filter(|_| attr.is_json()) {
        let message = "a JSON payload carries no fingerprint; leave `fingerprint` or `codec = \"json\"` out";
        errors.at(fingerprint.position, &fingerprint.key, message);
    }
}

/// Refuses options of a contract that only the program that runs the job can set.
fn check_contract(attr: &mut Attr, signature: &JobSignature, errors: &Errors) {
    if !signature.is_contract {
        return;
    }
    let only_there = [
        attr.backoff.take().map(|setting| (setting.key, setting.position)),
        attr.on_error.take().map(|setting| (setting.key, setting.position)),
        attr.on_archive.take().map(|setting| (setting.key, setting.position)),
        attr.aggregates.take().map(|setting| (setting.key, setting.position)),
        attr.kill_after.take().map(|setting| (setting.key, setting.position)),
        attr.upgrade.take().map(|setting| (setting.key, setting.position)),
    ];
    for (key, position) in only_there.into_iter().flatten() {
        let message = format!("`{key}` says how the job is run; write it in the program that has the body");
        errors.at(position, &key, message);
    }
}

fn check_kill_after(attr: &Attr, signature: &JobSignature, errors: &Errors) {
    if let Some(kill_after) = attr.kill_after.as_ref().filter(|_| !signature.is_blocking) {
        let message = "`kill_after` is for an `fn` that blocks its thread; an `async fn` ends at its timeout without it; leave it out";
        errors.at(kill_after.position, &kill_after.key, message);
    }
}

fn check_on_error(attr: &mut Attr, signature: &JobSignature, errors: &Errors) {
    let returns_nothing = matches!(&signature.output, Type::Tuple(tuple) if tuple.elems.is_empty());
    if let Some(on_error) = attr.on_error.take_if(|_| returns_nothing) {
        let message = "`on_error` looks at the error of the job, but it returns none; return `Result<T, E>`";
        errors.at(on_error.position, on_error.key, message);
    }
}

/// Checks that one argument takes the arguments of all tasks, and that the new task waits for no others.
fn check_aggregates(attr: &mut Attr, signature: &JobSignature, errors: &Errors) {
    if let Some(aggregates) = attr.aggregates.take_if(|_| attr.schedule.is_there()) {
        let message = "a periodic job has no arguments and takes no tasks; write `aggregates` on a `#[job]` of its own";
        errors.at(aggregates.position, &aggregates.key, message);
    }
    let Some(aggregates) = &attr.aggregates else { return };
    if let Some(group) = &attr.group {
        let message = "an aggregated task runs by itself; write `group` on the job that is aggregated";
        errors.at(group.position, &group.key, message);
    }
    if let Some(debounce) = &attr.debounce {
        let message = "an aggregated task has an id of its own and takes the place of no other; leave `debounce` out";
        errors.at(debounce.position, &debounce.key, message);
    }
    if let Some(unique) = &attr.unique {
        let message =
            "one group may become several equal tasks, each of which would keep the others waiting; leave `unique` out";
        errors.at(unique.position, &unique.key, message);
    }
    let is_whole = !signature.parameters.iter().any(Parameter::is_unknown);
    let mut arguments = arguments(&signature.parameters);
    let first_two = (arguments.next(), arguments.next());
    let takes_all = matches!(first_two, (Some(argument), None) if matches!(argument.form, Form::Owned));
    if is_whole && !takes_all {
        let job = aggregates.value.to_token_stream().to_string().replace(' ', "");
        let message = format!("`aggregates` needs one argument that takes all tasks of `{job}`: `tasks: Vec<{job}>`");
        errors.at(aggregates.position, &aggregates.key, message);
        attr.aggregates = None;
    }
}

/// Returns the arguments named in `"to, campaign"`.
fn unique_by(setting: &Setting<syn::LitStr>, parameters: &[Parameter], errors: &Errors) -> Option<Vec<Ident>> {
    let arguments: Vec<&Argument> = arguments(parameters).collect();
    let is_whole = !parameters.iter().any(Parameter::is_unknown);
    let literal = &setting.value;
    let text = literal.value();
    let mut chosen: Vec<Ident> = Vec::new();
    let mut at = 0;
    for part in text.split(',') {
        let name = part.trim();
        let start = at + (part.len() - part.trim_start().len());
        at += part.len() + 1;
        let wrong = |message: String| {
            let span = within(literal, start..start + name.len());
            errors.push(setting.position, syn::Error::new(span, message));
        };
        let bare = name.strip_prefix("r#").unwrap_or(name);
        match arguments.iter().find(|argument| argument.name() == bare) {
            Some(argument) if chosen.contains(&argument.ident) => wrong(format!("`{name}` is named twice")),
            Some(argument) => match argument.not_of_a_key() {
                Some(word) => wrong(format!(
                    "a unique key does not know the `#[serde({word})]` of `{name}`; leave it out here, or give it a type of its own"
                )),
                None => chosen.push(argument.ident.clone()),
            },
            None if name.is_empty() => {
                wrong("expected the name of an argument, as in `unique_by = \"to, campaign\"`".to_owned());
            }
            // A parameter with a mistake of its own may be the one that is meant.
            None if !is_whole => {}
            None => wrong(no_such_argument(name, &arguments)),
        }
    }
    Some(chosen).filter(|chosen| !chosen.is_empty())
}

fn no_such_argument(name: &str, arguments: &[&Argument]) -> String {
    let names: Vec<String> = arguments.iter().map(|argument| argument.name()).collect();
    if names.is_empty() {
        return format!("this job stores no arguments, so `{name}` cannot tell two tasks apart; leave `unique_by` out");
    }
    match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("the job has no argument `{name}`; did you mean `{near}`?"),
        None => format!("the job has no argument `{name}`; name some of these: {}", names.join(", ")),
    }
}
