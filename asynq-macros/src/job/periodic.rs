//! Prints a schedule: the entry that is linked into the program.

use proc_macro2::{Literal, TokenStream};
use quote::{quote, quote_spanned};

use super::{
    model::JobModel,
    schedule::{Missed, Overlap, Schedule},
    tokens::{at, time},
};

/// Prints the entry in the program's inventory.
pub(super) fn entry(schedule: &Schedule, job: &JobModel) -> TokenStream {
    let (cron, ident, text) = (job.paths.cron(), job.ident(), &schedule.text);
    let zone = schedule.zone.as_ref().map(|zone| {
        let variant = &zone.variant;
        let tz = quote_spanned!(at(variant.span())=> __cron::Tz);
        quote!(.zone(#tz::#variant))
    });
    let missed = schedule.missed.map(|missed| match missed {
        Missed::Skip => quote!(.missed(__cron::Missed::Skip)),
        Missed::Once => quote!(.missed(__cron::Missed::Once)),
        Missed::All(n) => {
            let n = Literal::u32_unsuffixed(n);
            quote!(.missed(__cron::Missed::All(#n)))
        }
    });
    let overlap = schedule.overlap.map(|overlap| match overlap {
        Overlap::Allow => quote!(.overlap(__cron::Overlap::Allow)),
        Overlap::Skip => quote!(.overlap(__cron::Overlap::Skip)),
        Overlap::Replace => quote!(.overlap(__cron::Overlap::Replace)),
    });
    let jitter = schedule.jitter.map(|jitter| {
        let jitter = time(jitter);
        quote!(.jitter(#jitter))
    });
    quote! {
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
    }
}
