//! The parameters that a worker supplies, recognised by their types.

use quote::ToTokens;
use syn::{PathSegment, Type, TypeReference};

use super::{
    super::Attribute as Kind,
    Parameter,
    mistake::{Mistake, mistake},
    type_tokens::{Static, bare, borrow_in, last_segment, only_argument},
};

/// Returns the parameter that a worker supplies for this type; `None` for an argument.
pub(super) fn recognise(ty: &Type, kind: Kind) -> Result<Option<Parameter>, Mistake> {
    let (reference, inner) = match ty {
        Type::Reference(reference) => (Some(reference), bare(&reference.elem)),
        _ => (None, ty),
    };
    let Some(last) = last_segment(inner) else { return Ok(None) };
    match (last.ident.to_string().as_str(), reference) {
        ("JobContext", Some(TypeReference { mutability: None, .. })) => Ok(Some(Parameter::Context)),
        ("JobContext", _) => mistake(ty, "take the context by reference: `&JobContext`"),
        ("Tick", None) if kind == Kind::Periodic => Ok(Some(Parameter::Tick(Box::new(ty.clone())))),
        ("Tick", Some(_)) if kind == Kind::Periodic => mistake(ty, "take the tick by value: `Tick` is small"),
        ("Checkpoint", Some(_)) if !last.arguments.is_none() => {
            mistake(ty, "take the checkpoint by value: `Checkpoint<T>`")
        }
        ("State" | "Shared", Some(_)) if !last.arguments.is_none() => {
            mistake(ty, "take state by value: `State<T>` is a cheap handle")
        }
        // A reference to a type without arguments may be one to a type of the user, as the type itself may be.
        ("State" | "Shared", _) => state(ty, last).map(Some),
        ("Checkpoint", _) => checkpoint(last).map(Some),
        _ => Ok(None),
    }
}

fn state(ty: &Type, segment: &PathSegment) -> Result<Parameter, Mistake> {
    let Some(inner) = only_argument(segment) else {
        return mistake(
            segment,
            "write the type of the state: `State<T>`; an argument of this name is marked with `#[arg]`",
        );
    };
    if let Type::TraitObject(object) = bare(inner) {
        return mistake(
            object,
            "a `dyn` has no size of its own; write `State<Arc<dyn …>>`, and give the worker such an `Arc<dyn …>`",
        );
    }
    if let Some(borrow) = borrow_in(inner.to_token_stream(), Static::Owned) {
        return mistake(borrow, "state is shared by all workers' threads; write an owned type in `State<…>`");
    }
    Ok(Parameter::State { ty: Box::new(ty.clone()), inner: Box::new(inner.clone()) })
}

fn checkpoint(segment: &PathSegment) -> Result<Parameter, Mistake> {
    let Some(ty) = only_argument(segment) else {
        return mistake(
            segment,
            "write the type that is kept: `Checkpoint<T>`; an argument of this name is marked with `#[arg]`",
        );
    };
    if let Some(borrow) = borrow_in(ty.to_token_stream(), Static::Allowed) {
        return mistake(borrow, "a checkpoint is stored; write an owned type in `Checkpoint<…>`");
    }
    Ok(Parameter::Checkpoint(Box::new(ty.clone())))
}

/// Returns whether this is a type of ours whose arguments the compiler would ask for.
pub(super) fn is_generic(segment: &PathSegment) -> bool {
    ["State", "Shared", "Checkpoint"].iter().any(|name| segment.ident == name)
}

#[cfg(test)]
mod tests {
    use syn::parse_str;

    use super::*;

    #[test]
    fn context_and_state_are_recognised_by_their_last_segment() {
        let kind = |ty: &str| match recognise(&parse_str(ty).expect(ty), Kind::Job) {
            Ok(Some(Parameter::Context)) => "context",
            Ok(Some(Parameter::State { .. })) => "state",
            Ok(Some(Parameter::Checkpoint(_))) => "checkpoint",
            Ok(Some(_)) => "another",
            Ok(None) => "argument",
            Err(_) => "refused",
        };
        for (ty, expected) in [
            ("&JobContext", "context"),
            ("&asynq_runtime::JobContext", "context"),
            ("JobContext", "refused"),
            ("&mut JobContext", "refused"),
            ("State<Mailer>", "state"),
            ("::asynq_runtime::State<Arc<Mailer>>", "state"),
            ("&State<Mailer>", "refused"),
            ("State", "refused"),
            ("State<A, B>", "refused"),
            ("State<&'static str>", "state"),
            ("State<&str>", "refused"),
            ("State<dyn Mailer + Send>", "refused"),
            ("State<Arc<dyn Mailer>>", "state"),
            ("Shared<Mailer>", "state"),
            ("Checkpoint<u64>", "checkpoint"),
            ("asynq_runtime::Checkpoint<(u64, String)>", "checkpoint"),
            ("&Checkpoint<u64>", "refused"),
            ("Checkpoint", "refused"),
            ("&State", "refused"),
            ("&Checkpoint", "refused"),
            ("Checkpoint<&str>", "refused"),
            ("Stateful<A>", "argument"),
            // Without a schedule, `Tick` is a type of the user.
            ("Tick", "argument"),
        ] {
            assert_eq!(kind(ty), expected, "{ty}");
        }
    }
}
