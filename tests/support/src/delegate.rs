//! Contracts whose calls a fake passes on.

/// Implements contracts for a fake in front of a broker: each call goes to the broker that the expression after
/// `|self, call|` returns. Methods that the fake writes itself follow the calls of their contract in `+ { … }`.
///
/// A method that is not listed keeps the default of its contract, which calls methods that are listed.
#[macro_export]
macro_rules! delegate {
    (
        $fake:ident: |$this:ident, $name:ident| $inner:expr;
        $($contract:ident { $($call:ident($($argument:ident: $type:ty),*) -> $answer:ty;)* } $(+ { $($own:tt)* })?)*
    ) => {
        $(#[async_trait::async_trait]
        impl $contract for $fake {
            $(async fn $call(&$this, $($argument: $type),*) -> $answer {
                let $name = stringify!($call);
                $inner.$call($($argument),*).await
            })*
            $($($own)*)?
        })*
    };
}
