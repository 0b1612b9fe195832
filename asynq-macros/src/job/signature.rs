//! Reads the signature of a job's function and refuses functions that cannot be a job.

use std::collections::HashSet;

use quote::ToTokens;
use syn::{Attribute, FnArg, GenericParam, PatType, ReturnType, Safety, Signature, Type, parse_quote};

use super::{
    Attribute as Kind,
    parameter::{Parameter, Static, borrow_in, is_mark, keyword_in, moves_to_field},
};
use crate::{
    errors::{Errors, Position},
    item::Item,
};

/// The facts of the signature.
pub(super) struct JobSignature {
    pub(super) parameters: Vec<Parameter>,
    /// The return type; `()` when none is written.
    pub(super) output: Type,
    /// Whether this is an `fn` without `async`, which runs on the blocking pool.
    pub(super) is_blocking: bool,
    /// Whether a semicolon stands instead of a body: another program runs the job.
    pub(super) is_contract: bool,
    /// How much of the signature could be understood.
    pub(super) health: Health,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Health {
    /// A job can be made of the function.
    Sound,
    /// Mistakes were recorded; only a stub can stand in for the job.
    Broken,
    /// A method: nothing can be put beside it.
    Method,
}

impl JobSignature {
    pub(super) fn read(item: &Item, kind: Kind, errors: &Errors) -> Self {
        let sig = &item.sig;
        let is_contract = item.is_without_body();
        let mut reader = Reader { kind, errors, is_contract, health: Health::Sound };
        reader.outside(item);
        reader.qualifiers(sig);
        reader.generics(sig);
        let parameters = reader.parameters(sig);
        reader.one_argument(&parameters);
        let output = reader.output(sig);
        if let Some(clause) = &sig.generics.where_clause {
            reader.wrong(clause, "a job has no type parameters, so it needs no `where`; leave it out");
        }
        if is_contract && kind == Kind::Periodic {
            reader.wrong(&item.body, "a periodic job needs a body: the program that has the schedule runs it");
        }
        Self { parameters, output, is_blocking: sig.asyncness.is_none(), is_contract, health: reader.health }
    }
}

/// Returns whether this attribute makes a job of the function, too.
pub(super) fn is_job(attr: &Attribute) -> bool {
    attr.path().segments.last().is_some_and(|segment| segment.ident == "job" || segment.ident == "periodic")
}

/// Returns whether an attribute of a contract or of its parameter goes to the struct, sets a lint, is for rustfmt, or was refused before.
fn is_for_contracts(attr: &Attribute) -> bool {
    const OTHERS: [&str; 7] = ["allow", "expect", "warn", "deny", "forbid", "cfg", "cfg_attr"];
    let is_for_rustfmt = attr.path().segments.first().is_some_and(|tool| tool.ident == "rustfmt");
    moves_to_field(attr) || is_for_rustfmt || OTHERS.iter().any(|name| attr.path().is_ident(name))
}

/// The message for an attribute of a contract or of its parameter, about which the compiler says nothing, because it never sees it.
const WITHOUT_EFFECT: &str =
    "a job without a body leaves only its struct, so this attribute would do nothing; leave it out";

struct Reader<'a> {
    kind: Kind,
    errors: &'a Errors,
    is_contract: bool,
    health: Health,
}

impl Reader<'_> {
    fn wrong(&mut self, tokens: impl ToTokens, message: &str) {
        self.errors.at(Position::Item, tokens, message);
        self.health = self.health.max(Health::Broken);
    }

    fn outside(&mut self, item: &Item) {
        for attr in &item.attrs {
            if is_job(attr) {
                let both = self.kind == Kind::Periodic || attr.path().is_ident("periodic");
                let message = if both {
                    "one attribute makes the job; put all options into one `#[periodic]`, or one `#[job]`"
                } else {
                    "`#[job]` is given twice; put all options into one"
                };
                self.wrong(attr, message);
            } else if attr.path().is_ident("serde") {
                let message = "serde reads the parameters and not the function: write its attributes there, and in place of `rename_all` a \
                               `#[serde(rename = \"…\")]` on each";
                self.wrong(attr, message);
            } else if attr.path().is_ident("derive") {
                self.wrong(attr, "a derive for the job's struct is an option: write `#[job(derive(Debug, Clone))]`");
            } else if self.is_contract && !is_for_contracts(attr) && !attr.path().is_ident("deprecated") {
                self.wrong(attr, WITHOUT_EFFECT);
            }
        }
    }

    fn qualifiers(&mut self, sig: &Signature) {
        if let Some(token) = &sig.constness {
            self.wrong(token, "a job runs in a worker, never while compiling; leave `const` out");
        }
        if let Safety::Unsafe(token) = &sig.safety {
            self.wrong(token, "a worker cannot promise what an `unsafe fn` asks for; write a safe wrapper");
        }
        if let Some(abi) = &sig.abi {
            self.wrong(abi, "a job is an ordinary Rust function; leave `extern` out");
        }
    }

    fn generics(&mut self, sig: &Signature) {
        if sig.generics.params.is_empty() {
            return;
        }
        let only_lifetimes = sig.generics.params.iter().all(|param| matches!(param, GenericParam::Lifetime(_)));
        let message = if only_lifetimes {
            "a job needs no named lifetimes; borrow with a plain `&`"
        } else {
            "a job has one name on the wire, so it cannot be generic; write a concrete wrapper"
        };
        self.wrong(&sig.generics, message);
    }

    fn parameters(&mut self, sig: &Signature) -> Vec<Parameter> {
        let mut parameters = Vec::new();
        let mut taken = HashSet::new();
        for input in &sig.inputs {
            let typed = match input {
                FnArg::Typed(typed) => typed,
                FnArg::Receiver(receiver) => {
                    self.wrong(receiver, "a job is a free function; pass shared state as `State<T>`");
                    self.health = Health::Method;
                    continue;
                }
            };
            self.names_its_type(&typed.ty);
            let mut parameter = Parameter::read(typed, self.kind, self.errors);
            if self.is_contract {
                self.parameter_of_a_contract(&parameter, typed);
            }
            let if_twice = match parameter {
                Parameter::Context => Some("the context is taken twice; leave one `&JobContext` out"),
                Parameter::Tick(_) => Some("the tick is taken twice; leave one `Tick` out"),
                Parameter::Checkpoint(_) => {
                    Some("a task has one checkpoint; keep a struct or a tuple in one `Checkpoint<T>`")
                }
                _ => None,
            };
            if let Some(message) = if_twice
                && !taken.insert(message)
            {
                self.wrong(&typed.ty, message);
            }
            if parameter.is_unknown() {
                self.health = self.health.max(Health::Broken);
            }
            // The types of arguments may name a parameter that does not exist outside the function.
            if parameter.argument().is_some() && !sig.generics.params.is_empty() {
                parameter = Parameter::Broken { is_argument: true };
            }
            parameters.push(parameter);
        }
        if let Some(variadic) = &sig.variadic {
            self.wrong(variadic, "a job's arguments are stored by name; write them one by one");
        }
        parameters
    }

    /// Refuses a parameter that no caller gives, and records mistakes about which the compiler says nothing, because it never sees the
    /// function of a contract: an attribute that does not exist, and a type in whose place the message would stand.
    fn parameter_of_a_contract(&mut self, parameter: &Parameter, typed: &PatType) {
        for attr in typed.attrs.iter().filter(|attr| !is_mark(attr) && !is_for_contracts(attr)) {
            self.wrong(attr, WITHOUT_EFFECT);
        }
        match parameter {
            Parameter::Context | Parameter::State { .. } | Parameter::FromContext(_) | Parameter::Checkpoint(_) => {
                self.wrong(
                    &typed.ty,
                    "a job without a body is only enqueued here, so this program does not supply it; leave it out",
                );
            }
            Parameter::Incomplete { error, .. } => self.errors.push(Position::Item, error.clone()),
            Parameter::Tick(_) | Parameter::Argument(_) | Parameter::Broken { .. } => {}
        }
    }

    /// Refuses `Self`, which means an `impl`, where nothing can be put beside the function.
    fn names_its_type(&mut self, ty: &Type) {
        if let Some(token) = keyword_in(ty.to_token_stream(), "Self") {
            self.wrong(token, "a job is a free function, outside of any `impl`, and has no `Self`; name the type");
            self.health = Health::Method;
        }
    }

    /// Refuses a job whose one argument, which is the payload itself, is not stored or has a default for a payload without it.
    fn one_argument(&mut self, parameters: &[Parameter]) {
        let mut arguments = parameters.iter().filter_map(Parameter::argument);
        if !parameters.iter().any(Parameter::is_unknown)
            && let (Some(argument), None) = (arguments.next(), arguments.next())
            && let Some(word) = argument.not_of_a_payload()
        {
            let message = if word == "default" {
                "the only argument is the payload itself, so it has no default; leave `default` out, or write `Option<T>`"
            } else {
                "the only argument is the payload itself, so it cannot be skipped; leave it out"
            };
            self.wrong(word, message);
        }
    }

    fn output(&mut self, sig: &Signature) -> Type {
        let ReturnType::Type(_, ty) = &sig.output else {
            return parse_quote!(());
        };
        self.names_its_type(ty);
        if let Type::Never(never) = &**ty {
            self.wrong(never, "a job ends at some time; return `()` or `JobResult`");
        } else if let Some(token) = keyword_in(ty.to_token_stream(), "impl") {
            self.wrong(
                token,
                "a job's result type needs a name; return `()` or `Result<T, E>`, from an `async fn` if the job awaits",
            );
        } else if let Some(borrow) = borrow_in(ty.to_token_stream(), Static::Owned) {
            self.wrong(borrow, "a job's result outlives its arguments; return an owned type");
        }
        (**ty).clone()
    }
}
