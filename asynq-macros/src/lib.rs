//! The `#[job]` attribute.

/// Stand-in until the real one lands.
#[proc_macro_attribute]
pub fn job(_attr: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    item
}
