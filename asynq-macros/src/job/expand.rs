//! Prints the model: the struct, its functions for users, the `Job` implementation and the registration.

use std::time::Duration;

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{ExprPath, ext::IdentExt, spanned::Spanned};

use super::{
    attr::Attr,
    docs,
    model::JobModel,
    parameter::{Argument, Form},
    periodic,
    run::run,
    setting::{Pause, Setting, UniqueUntil},
    tokens::{allow, at, doc, doc_at, local, stored, time},
    type_checks::{bound, check, ok, requires},
};
use crate::paths::Paths;

/// Prints everything beside the function.
pub(super) fn job(job: &JobModel) -> TokenStream {
    let payload = payload(job, true);
    let handle = handle(job, &Handle::of(job));
    let implementation = implementation(job);
    let registration = (!job.signature.is_contract).then(|| registration(job));
    let aggregation = aggregation(job);
    let entry = periodic::entry(job);
    let check = check(job);
    let scoped = scoped(job, &quote!(#check #implementation #registration #aggregation #entry));
    // In the golden files the other items follow the struct, without `instead`.
    if cfg!(test) {
        return quote!(#payload #handle #scoped);
    }
    let (private, vis, ident) = (job.paths.private(), job.vis(), job.ident());
    let allow = allow();
    quote!(#[#private::instead(#payload #handle #scoped)] #allow #vis struct #ident {})
}

/// Prints the impls in a scope of their own, so that `__rt` is not a name in the user's.
pub(super) fn scoped(job: &JobModel, items: &TokenStream) -> TokenStream {
    let (private, shared, allow) = (job.paths.private(), job.shared_attrs(), allow());
    quote! {
        #(#shared)*
        #allow
        const _: () = {
            use #private as __rt;
            #items
        };
    }
}

/// Prints the struct: the job's arguments by name, in their owned forms.
pub(super) fn payload(job: &JobModel, is_checked: bool) -> TokenStream {
    let (private, serde) = (job.paths.private(), job.paths.serde());
    let (ident, vis) = (job.ident(), job.vis());
    let (shared, own, allow, derives) = (job.shared_attrs(), job.struct_attrs(), allow(), &job.attr.derives);
    let doc = doc(&docs::of_struct(job));
    // One argument is the payload itself, as Go's `json.Unmarshal` into its type expects. One that is skipped or has a default was
    // refused.
    let is_payload =
        job.arguments().count() == 1 && job.arguments().all(|argument| argument.not_of_a_payload().is_none());
    let transparent = is_payload.then(|| quote!(#[serde(transparent)]));
    let fields = job.arguments().map(|argument| {
        let (ident, attrs, ty) = (&argument.ident, &argument.attrs, stored(argument, &private));
        let has_doc = attrs.iter().any(|attr| attr.path().is_ident("doc"));
        // serde points at the first token of a field when its type cannot be stored.
        let doc = (!has_doc).then(|| doc_at(at(argument.ty.span()), &docs::of_field(job, argument)));
        let bound = (is_checked && argument.is_plain(job.ident())).then(|| bound(job, argument));
        quote!(#doc #(#attrs)* #bound #vis #ident: #ty)
    });
    quote! {
        #(#shared)*
        #(#own)*
        #doc
        #allow
        #[derive(#private::Serialize, #private::Deserialize #(, #derives)*)]
        #[serde(crate = #serde)]
        #transparent
        #vis struct #ident {
            #(#fields,)*
        }
    }
}

/// The parameters of the functions on the struct, and the expression that makes the builder.
pub(super) struct Handle {
    pub(super) parameters: Vec<TokenStream>,
    pub(super) forwarded: Vec<TokenStream>,
    pub(super) builder: TokenStream,
}

impl Handle {
    fn of(job: &JobModel) -> Self {
        let private = job.paths.private();
        let fields = job.arguments().map(|argument| field_value(argument, &private));
        Self {
            parameters: job.arguments().map(|argument| taken(argument, &job.paths)).collect(),
            forwarded: job.arguments().map(|argument| argument.ident.to_token_stream()).collect(),
            builder: quote!(#private::JobBuilder::new(Self { #(#fields),* })),
        }
    }
}

/// Prints the functions that users call.
pub(super) fn handle(job: &JobModel, handle: &Handle) -> TokenStream {
    let private = job.paths.private();
    let (ident, vis) = (job.ident(), job.vis());
    let (shared, allow) = (job.shared_attrs(), allow());
    let Handle { parameters, forwarded, builder } = handle;
    let (delay, when) = (local("delay"), local("when"));
    // The names and bounds have the function's span, so that a wrong call is reported beside the job and in few lines.
    let span = ident.span();
    let client = Ident::new("client", at(span));
    let [of_job, enqueue, enqueue_in, enqueue_at] =
        ["job", "enqueue", "enqueue_in", "enqueue_at"].map(|name| Ident::new(name, span));
    let there = job.paths.private_at(span);
    let (length, moment) =
        (quote_spanned!(span=> impl #there::IntoSpan), quote_spanned!(span=> impl #there::IntoInstant));
    let taken_client = quote_spanned!(at(span)=> #client: &#private::Client);
    // The future's type holds no type of the caller, because a wrong one would be reported again for the future and its
    // `.await`.
    let enqueued = quote!(#private::Result<#private::Enqueued<Self>, #private::EnqueueError>);
    let future = quote!(#private::BoxFuture<'static, #enqueued>);
    let doc_job = doc(docs::of_job());
    let doc_enqueue = doc(&docs::of_enqueue("with the options declared on the function"));
    let doc_enqueue_in = doc(&docs::of_enqueue("to run after a delay: a `Duration`, or text such as `\"10m\"`"));
    let doc_enqueue_at = doc(&docs::of_enqueue("to run at a given time"));
    quote! {
        #(#shared)*
        #allow
        impl #ident {
            #doc_job
            #vis fn #of_job(#(#parameters),*) -> #private::JobBuilder<Self> {
                #builder
            }

            #doc_enqueue
            #vis fn #enqueue(#taken_client, #(#parameters),*) -> #future {
                Self::job(#(#forwarded),*).enqueue(#client)
            }

            #doc_enqueue_in
            #vis fn #enqueue_in(#taken_client, #delay: #length, #(#parameters),*) -> #future {
                Self::job(#(#forwarded),*).process_in(#delay).enqueue(#client)
            }

            #doc_enqueue_at
            #vis fn #enqueue_at(#taken_client, #when: #moment, #(#parameters),*) -> #future {
                Self::job(#(#forwarded),*).process_at(#when).enqueue(#client)
            }
        }
    }
}

fn implementation(job: &JobModel) -> TokenStream {
    let (ident, name) = (job.ident(), &job.name);
    let options = options(&job.attr);
    let requires = requires(job);
    let codec = job.attr.is_json().then(|| {
        quote!(
            const CODEC: __rt::Codec = __rt::Codec::Json;
        )
    });
    let fingerprint = job.attr.fingerprint.as_deref();
    let fingerprint =
        fingerprint.map(|text| quote!(const FINGERPRINT: __rt::Option<&'static str> = __rt::Option::Some(#text);));
    let evolution = evolution(job);
    let backoff = job.attr.backoff.as_deref().map(backoff);
    let on_archive = job.attr.on_archive.as_deref().map(on_archive);
    let contract = job.signature.is_contract.then(|| {
        quote!(
            const IS_CONTRACT: bool = true;
        )
    });
    let output = output(job);
    let unique_by = unique_by(job);
    let run = run(job);
    quote! {
        impl __rt::Job for #ident {
            const NAME: &'static str = #name;
            #options
            #requires
            #codec
            #fingerprint
            #evolution
            #backoff
            #on_archive
            #contract
            #output
            #unique_by
            #run
        }
    }
}

/// Prints the constants that let this job run tasks of earlier versions.
fn evolution(job: &JobModel) -> TokenStream {
    let mut arguments = job.arguments();
    let argument = match (arguments.next(), arguments.next()) {
        (Some(argument), None) => {
            let (name, aliases) = (argument.serde_name(), argument.serde_aliases());
            // serde has no use for an alias of an argument that is the payload itself.
            let aliases = (!aliases.is_empty())
                .then(|| quote!(const ARGUMENT_ALIASES: &'static [&'static str] = &[#(#aliases),*];));
            Some(quote!(const ARGUMENT: __rt::Option<&'static str> = __rt::Option::Some(#name); #aliases))
        }
        _ => None,
    };
    let aliases = job.attr.alias.as_deref();
    let aliases = aliases.map(|aliases| quote!(const ALIASES: &'static [&'static str] = &[#(#aliases),*];));
    let upgrade = |path: &ExprPath| {
        let earlier = local("earlier");
        // A variable of this type, because the compiler says less of a wrong variable than of a wrong argument.
        quote_spanned! {at(path.span())=>
            __rt::Upgrade::new(|#earlier| {
                let upgrade: fn(_) -> Self = #path;
                #earlier.through(upgrade)
            })
        }
    };
    let upgrades = job.attr.upgrade.as_deref().map(|paths| {
        let upgrades = paths.iter().map(upgrade);
        quote!(const UPGRADES: &'static [__rt::Upgrade<Self>] = &[#(#upgrades),*];)
    });
    quote!(#argument #aliases #upgrades)
}

fn registration(job: &JobModel) -> TokenStream {
    let ident = job.ident();
    quote! {
        __rt::inventory::submit! {
            __rt::JobDescriptor::of::<#ident>(::std::file!(), ::std::line!())
        }
    }
}

/// Prints the conversion of another job's tasks into one task of this job.
fn aggregation(job: &JobModel) -> Option<TokenStream> {
    let (path, ident) = (job.attr.aggregates.as_deref()?, job.ident());
    let argument = job.arguments().next()?;
    let (field, name, ok) = (&argument.ident, local("tasks"), ok(job));
    // The span is that of the parameter's type, where the compiler reports another type.
    let made = Ident::new("tasks", at(argument.ty.span()));
    Some(quote! {
        impl __rt::Aggregates for #ident {
            type Of = <#path as __rt::PartOf<#ok>>::Job;

            fn aggregate(#name: __rt::Vec<#path>) -> Self {
                Self { #field: #made }
            }
        }

        __rt::inventory::submit! {
            __rt::Aggregation::of::<#ident>(::std::file!(), ::std::line!())
        }
    })
}

fn backoff(pause: &Pause) -> TokenStream {
    let made = match pause {
        Pause::Declared(asynq_grammar::Backoff::Constant(delay)) => {
            let delay = time(*delay);
            quote!(__rt::Backoff::constant(#delay))
        }
        Pause::Declared(asynq_grammar::Backoff::Linear(step)) => {
            let step = time(*step);
            quote!(__rt::Backoff::linear(#step))
        }
        Pause::Declared(asynq_grammar::Backoff::Exponential { first, most }) => {
            let (first, most) = (time(*first), time(*most));
            quote!(__rt::Backoff::exponential(#first, #most))
        }
        // A variable, as for an upgrade.
        Pause::By(path) => quote_spanned! {at(path.span())=>
            __rt::Backoff::by({
                let decide: fn(u32, &__rt::JobError) -> __rt::Duration = #path;
                decide
            })
        },
    };
    quote!(const BACKOFF: __rt::Option<__rt::Backoff> = __rt::Option::Some(#made);)
}

fn on_archive(path: &ExprPath) -> TokenStream {
    let task = local("task");
    let call = quote_spanned!(at(path.span())=> #task.call(#path));
    quote!(const ON_ARCHIVE: __rt::Option<__rt::OnArchive<Self>> = __rt::Option::Some(__rt::OnArchive::new(|#task| #call));)
}

fn options(attr: &Attr) -> Option<TokenStream> {
    let span = |method: &str, value: &Option<Setting<Duration>>| {
        let (method, value) = (format_ident!("{method}"), time(**value.as_ref()?));
        Some(quote!(.#method(#value)))
    };
    let number = |method: &str, value: &Option<Setting<u32>>| {
        let (method, value) = (format_ident!("{method}"), Literal::u32_unsuffixed(**value.as_ref()?));
        Some(quote!(.#method(#value)))
    };
    let calls: Vec<TokenStream> = [
        attr.queue.as_deref().map(|queue| quote!(.queue(#queue))),
        number("retry", &attr.retry),
        span("timeout", &attr.timeout),
        span("deadline", &attr.deadline),
        span("expires", &attr.expires),
        attr.group.as_deref().map(|group| quote!(.group(#group))),
        span("unique", &attr.unique),
        span("debounce", &attr.debounce),
        span("debounce_max", &attr.debounce_max),
        attr.unique_until.as_deref().and_then(|until| match until {
            // The default.
            UniqueUntil::End => None,
            UniqueUntil::Success => Some(quote!(.unique_until(__rt::UniqueUntil::Success))),
            UniqueUntil::Start => Some(quote!(.unique_until(__rt::UniqueUntil::Start))),
        }),
        attr.unique_extend.as_deref().and_then(|extend| extend.then(|| quote!(.unique_extend()))),
        span("retention", &attr.retention),
        number("max_crashes", &attr.max_crashes),
        span("kill_after", &attr.kill_after),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!calls.is_empty()).then(|| quote!(const OPTIONS: __rt::JobOptions = __rt::JobOptions::new()#(#calls)*;))
}

/// Prints the type of the result, at whose place the compiler reports one that is less visible than the job. If nothing else can fail
/// it is the function's own, so that a wrong one is reported once.
fn output(job: &JobModel) -> TokenStream {
    let ty = &job.signature.output;
    if job.is_direct() {
        return quote_spanned!(at(ty.span())=> type Output = #ty;);
    }
    let ok = ok(job);
    quote_spanned!(at(ty.span())=> type Output = __rt::JobResult<<#ty as __rt::Returned<#ok>>::Value>;)
}

fn unique_by(job: &JobModel) -> Option<TokenStream> {
    let arguments = job.unique_by.as_ref()?;
    let names = arguments.iter().map(|ident| ident.unraw().to_string());
    Some(quote! {
        const UNIQUE_BY: &'static [&'static str] = &[#(#names),*];
        fn unique_by(&self) -> __rt::Option<__rt::Result<__rt::Bytes, __rt::CodecError>> {
            __rt::Option::Some(__rt::encode_key::<Self>(&(#(&self.#arguments,)*)))
        }
    })
}

/// Prints an argument as a parameter of the functions that users call.
pub(super) fn taken(argument: &Argument, paths: &Paths) -> TokenStream {
    let (ident, ty) = (&argument.ident, &argument.ty);
    match argument.form {
        Form::Text => {
            let private = paths.private_at(ty.span());
            let text = quote_spanned!(ty.span()=> impl #private::IntoText<#ty>);
            quote!(#ident: #text)
        }
        _ => quote!(#ident: #ty),
    }
}

/// Prints an argument's field in a struct literal, made of the caller's value.
fn field_value(argument: &Argument, private: &TokenStream) -> TokenStream {
    let ident = &argument.ident;
    match &argument.form {
        Form::Owned => ident.to_token_stream(),
        Form::Text => quote!(#ident: #private::IntoText::into_text(#ident)),
        Form::BorrowedText | Form::Unsized(_) => quote!(#ident: ::std::borrow::ToOwned::to_owned(#ident)),
        Form::Slice(ty) => {
            let item = local("item");
            let clone = quote_spanned!(at(ty.span())=> <#ty as ::std::clone::Clone>::clone(#item));
            quote!(#ident: ::std::iter::Iterator::collect(::std::iter::Iterator::map(#ident.iter(), |#item| #clone)))
        }
        Form::Borrowed(ty) => {
            let clone = quote_spanned!(at(ty.span())=> <#ty as ::std::clone::Clone>::clone(#ident));
            quote!(#ident: #clone)
        }
    }
}
