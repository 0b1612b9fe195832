//! Prints a schedule: the entry that is linked into the program.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};

use super::{
    model::JobModel,
    tokens::{at, time},
};

/// Prints the entry in the program's inventory.
pub(super) fn entry(job: &JobModel) -> Option<TokenStream> {
    let schedule = &job.attr.schedule;
    let (text, _) = schedule.spec.as_ref()?;
    let (cron, ident) = (job.paths.cron(), job.ident());
    let zone = schedule.zone.as_ref().map(|zone| {
        let variant = &zone.variant;
        let tz = quote_spanned!(at(variant.span())=> __cron::Tz);
        quote!(.zone(#tz::#variant))
    });
    let missed = schedule.missed.as_ref().map(|variant| quote!(.missed(__cron::Missed::#variant)));
    let overlap = schedule.overlap.map(|variant| {
        let variant = format_ident!("{variant}");
        quote!(.overlap(__cron::Overlap::#variant))
    });
    let jitter = schedule.jitter.as_ref().map(|jitter| {
        let jitter = time(jitter.value);
        quote!(.jitter(#jitter))
    });
    Some(quote! {
        use #cron as __cron;
        __cron::inventory::submit! {
            __cron::PeriodicEntry::of::<#ident>(
                #text,
                || ::std::convert::From::from(#ident {}),
                ::std::file!(),
                ::std::line!()
            )
            #zone
            #missed
            #overlap
            #jitter
        }
    })
}
