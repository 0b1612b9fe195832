//! Reads one `key = value` of the attribute, and says what to write instead of anything else.

use std::{cell::Cell, fmt::Display, time::Duration};

use asynq_grammar::{TextError, backoff, duration};
use proc_macro2::TokenTree;
use quote::ToTokens;
use syn::{
    Expr, ExprArray, ExprClosure, ExprLit, ExprPath, Ident, Lit, LitInt, LitStr, MetaList, Path, Token,
    ext::IdentExt,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
    token::Paren,
};

use super::{
    Attribute,
    literal::within,
    options::{self, DERIVE, Known},
    setting::{Pause, Setting},
};
use crate::errors::{Errors, Position};

/// One option being read. A reader that returns `None` has recorded a mistake.
pub(super) struct Entry<'a> {
    pub(super) key: Ident,
    known: &'static Known,
    input: ParseStream<'a>,
    errors: &'a Errors,
    position: Position,
    /// Whether the stream is not right behind a value, so that the next tokens are not a second mistake.
    stuck: Cell<bool>,
}

impl<'a> Entry<'a> {
    /// Reads `derive(Debug, Clone)`, the one option that is written like an attribute; `None` for any other option.
    pub(super) fn derives(
        input: ParseStream<'a>,
        errors: &'a Errors,
        position: Position,
        attribute: Attribute,
    ) -> Option<Vec<Path>> {
        let ahead = input.fork();
        let known = options::known(DERIVE, attribute)?;
        if !ahead.call(Ident::parse_any).is_ok_and(|key| key == DERIVE) {
            return None;
        }
        if !ahead.peek(Paren) {
            let _ = input.call(Ident::parse_any);
            errors.at(position, next_token(input), known.takes());
            return skip(input).or(Some(Vec::new()));
        }
        let meta = input.parse::<MetaList>().ok()?;
        let paths = meta.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated);
        let paths = errors.ok(position, paths).unwrap_or_default();
        let (of_serde, derives) = paths.into_iter().partition::<Vec<_>, _>(is_of_serde);
        for path in of_serde {
            errors.at(position, path, "every job derives this already; leave it out");
        }
        go_on(input, errors, position, known);
        Some(derives)
    }

    /// Reads `key =`; records other tokens as a mistake and goes to the next option.
    pub(super) fn begin(
        input: ParseStream<'a>,
        errors: &'a Errors,
        position: Position,
        attribute: Attribute,
    ) -> Option<Self> {
        let Ok(key) = input.call(Ident::parse_any) else {
            errors.at(position, next_token(input), "expected an option such as `queue = \"critical\"`");
            return skip(input);
        };
        let Some(known) = options::known(&key.to_string(), attribute) else {
            errors.at(position, &key, options::unknown(&key.to_string(), attribute));
            return skip(input);
        };
        if input.is_empty() || input.peek(Token![,]) {
            errors.at(position, &key, format_args!("`{key}` needs a value: {}", known.example()));
            return skip(input);
        }
        if input.peek(Token![==]) || input.parse::<Token![=]>().is_err() {
            errors.at(position, next_token(input), format_args!("expected `=`: {}", known.example()));
            return skip(input);
        }
        Some(Self { key, known, input, errors, position, stuck: Cell::new(false) })
    }

    /// Goes on to the next option.
    pub(super) fn finish(self) {
        if self.stuck.get() {
            skip::<()>(self.input);
        } else {
            go_on(self.input, self.errors, self.position, self.known);
        }
    }

    /// Records a mistake of this option.
    pub(super) fn wrong(&self, tokens: impl ToTokens, message: impl Display) {
        self.errors.at(self.position, tokens, message);
    }

    /// Returns the value, or records the mistake of this option.
    pub(super) fn ok<T>(&self, result: syn::Result<T>) -> Option<T> {
        self.errors.ok(self.position, result)
    }

    /// Returns the value of a text, or points at its bytes that are wrong, where the compiler allows it.
    fn value_of<T>(&self, literal: &LitStr, parse: impl FnOnce(&str) -> Result<T, TextError>) -> Option<T> {
        self.ok(parse(&literal.value()).map_err(|error| syn::Error::new(within(literal, error.range()), error)))
    }

    pub(super) fn setting<T>(&self, value: Option<T>) -> Option<Setting<T>> {
        value.map(|value| Setting { value, key: self.key.clone(), position: self.position })
    }

    /// Reads text in quotes.
    pub(super) fn text(&self) -> Option<LitStr> {
        match self.literal()? {
            Lit::Str(text) => Some(text),
            other => self.refuse(&other, self.known.takes()),
        }
    }

    /// Reads a name that passes one of the grammar's checks.
    pub(super) fn name(&self, check: fn(&str) -> Result<(), TextError>) -> Option<String> {
        self.checked(&self.text()?, check)
    }

    fn checked(&self, literal: &LitStr, check: fn(&str) -> Result<(), TextError>) -> Option<String> {
        self.value_of(literal, |name| check(name).map(|()| name.to_owned()))
    }

    /// Reads any text that is not blank.
    pub(super) fn label(&self) -> Option<String> {
        let literal = self.text()?;
        if literal.value().trim().is_empty() {
            return self.refuse(&literal, format_args!("`{}` must not be empty: {}", self.key, self.known.example()));
        }
        Some(literal.value())
    }

    /// Reads one of a few words.
    pub(super) fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let literal = self.text()?;
        let found = literal.value();
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == found) {
            return Some(*value);
        }
        let quoted: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        let all = match quoted.split_last() {
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        };
        let key = &self.key;
        let instead = match asynq_grammar::nearest(&found, words.iter().map(|(word, _)| *word)) {
            Some(near) => format!("did you mean \"{near}\"? ({all})"),
            None => format!("write {all}"),
        };
        self.refuse(&literal, format_args!("unknown {key} \"{found}\"; {instead}"))
    }

    /// Reads a duration of whole seconds, at least one; `instead_of_zero` says what to write instead of zero.
    pub(super) fn seconds(&self, instead_of_zero: &str) -> Option<Duration> {
        let key = &self.key;
        let (literal, value) = self.duration()?;
        if value.is_zero() {
            return self.refuse(&literal, format_args!("`{key}` must be at least \"1s\"; {instead_of_zero}"));
        }
        if value.subsec_nanos() == 0 {
            return Some(value);
        }
        // asynq stores whole seconds and would cut the rest silently.
        let less = duration::format(Duration::from_secs(value.as_secs()));
        let more = duration::format(Duration::from_secs(value.as_secs() + 1));
        let choice = if value.as_secs() == 0 { format!("\"{more}\"") } else { format!("\"{less}\" or \"{more}\"") };
        self.refuse(&literal, format_args!("`{key}` is kept in whole seconds; write {choice}"))
    }

    /// Reads a duration of at least one millisecond.
    pub(super) fn span(&self, instead_of_zero: &str) -> Option<Duration> {
        let (literal, value) = self.duration()?;
        if value.is_zero() {
            let key = &self.key;
            return self.refuse(&literal, format_args!("`{key}` must be at least \"1ms\"; {instead_of_zero}"));
        }
        Some(value)
    }

    /// Reads any duration, and returns it with its literal.
    fn duration(&self) -> Option<(LitStr, Duration)> {
        let literal = self.quoted("a duration")?;
        let value = self.value_of(&literal, duration::parse)?;
        Some((literal, value))
    }

    /// Reads a back-off in quotes, or the path of a function.
    pub(super) fn pause(&self) -> Option<Pause> {
        if self.input.peek(Token![|])
            && let Ok(closure) = self.input.fork().parse::<ExprClosure>()
        {
            // The closure is taken in one piece, because its commas begin no options.
            let _ = self.input.parse::<ExprClosure>();
            return self.refuse(&closure, self.known.takes());
        }
        if !self.input.peek(Lit) {
            return self.path().map(Pause::By);
        }
        let literal = self.quoted("its pauses")?;
        self.value_of(&literal, backoff::parse).map(Pause::Declared)
    }

    /// Reads `true` or `false`.
    pub(super) fn flag(&self) -> Option<bool> {
        match self.literal()? {
            Lit::Bool(flag) => Some(flag.value),
            other => self.refuse(&other, self.known.takes()),
        }
    }

    /// Reads a whole number between `least` and the maximum of the wire's 32 bits.
    pub(super) fn number(&self, least: u32) -> Option<u32> {
        const MOST: u32 = i32::MAX.unsigned_abs();
        let key = &self.key;
        let number: LitInt = match self.literal()? {
            Lit::Int(number) if number.suffix().is_empty() => number,
            other => return self.refuse(&other, self.known.takes()),
        };
        match number.base10_parse::<u32>() {
            Ok(value) if (least..=MOST).contains(&value) => Some(value),
            Ok(value) if value < least => self.refuse(&number, format_args!("`{key}` must be at least {least}")),
            _ if number.base10_digits().starts_with('-') => {
                self.refuse(&number, format_args!("`{key}` cannot be negative; write {least} or more"))
            }
            _ => self.refuse(&number, format_args!("`{key}` must be at most {MOST}: it is stored in 32 bits")),
        }
    }

    /// Reads the path of a function.
    pub(super) fn path(&self) -> Option<ExprPath> {
        self.parsed(ExprPath::parse)
    }

    /// Reads the path of a function, or a list of them in brackets.
    pub(super) fn paths(&self) -> Option<Vec<ExprPath>> {
        match self.list()? {
            None => self.path().map(|path| vec![path]),
            Some(list) => self.each(&list, |element| match element {
                Expr::Path(path) => Some(path.clone()),
                other => self.refuse(other, self.known.takes()),
            }),
        }
    }

    /// Reads a name that passes one of the grammar's checks, or a list of them in brackets.
    pub(super) fn names(&self, check: fn(&str) -> Result<(), TextError>) -> Option<Vec<String>> {
        match self.list()? {
            None => self.name(check).map(|name| vec![name]),
            Some(list) => self.each(&list, |element| match element {
                Expr::Lit(ExprLit { lit: Lit::Str(literal), .. }) => self.checked(literal, check),
                other => self.refuse(other, self.known.takes()),
            }),
        }
    }

    /// Reads a list in brackets; the inner `None` is for anything that does not begin with a bracket.
    fn list(&self) -> Option<Option<ExprArray>> {
        if !self.input.peek(syn::token::Bracket) {
            return Some(None);
        }
        self.parsed(ExprArray::parse).map(Some)
    }

    /// Reads all elements, so that each mistake is reported.
    fn each<T>(&self, list: &ExprArray, read: impl Fn(&Expr) -> Option<T>) -> Option<Vec<T>> {
        if list.elems.is_empty() {
            return self.refuse(list, self.known.takes());
        }
        let read: Vec<Option<T>> = list.elems.iter().map(|element| read(without_groups(element))).collect();
        read.into_iter().collect()
    }

    /// Reads the path of a type.
    pub(super) fn type_path(&self) -> Option<Path> {
        self.parsed(Path::parse_mod_style)
    }

    /// Reads the path of a crate or module. One in quotes is refused and returned, because the crate that needs the option has no other.
    pub(super) fn crate_path(&self) -> Option<Path> {
        if self.input.peek(LitStr) {
            let text = self.text()?;
            self.wrong(&text, self.known.takes());
            return text.parse_with(Path::parse_mod_style).ok();
        }
        let path = self.type_path()?;
        if path.segments.iter().any(|segment| segment.ident == "$crate") {
            return self.refuse(&path, "serde cannot follow `$crate`; write a path such as `::my_crate::jobs`");
        }
        Some(path)
    }

    /// Reads text in quotes; a plain number is refused with the same number as text, because `what` goes in quotes.
    fn quoted(&self, what: &str) -> Option<LitStr> {
        let key = &self.key;
        match self.literal()? {
            Lit::Str(text) => Some(text),
            Lit::Int(number) if is_plain(&number) => {
                let digits = number.base10_digits();
                self.refuse(&number, format_args!("`{key}` takes {what} in quotes: `{key} = \"{digits}s\"`"))
            }
            other => self.refuse(&other, self.known.takes()),
        }
    }

    fn literal(&self) -> Option<Lit> {
        self.parsed(Lit::parse)
    }

    /// Reads what `parse` reads; other tokens are a mistake, and the stream stays in front of them.
    fn parsed<T>(&self, parse: fn(ParseStream<'_>) -> syn::Result<T>) -> Option<T> {
        match parse(&self.input.fork()) {
            Ok(_) => parse(self.input).ok(),
            Err(_) => self.stuck_here(),
        }
    }

    fn stuck_here<T>(&self) -> Option<T> {
        self.stuck.set(true);
        if self.input.is_empty() || self.input.peek(Token![,]) {
            return self.refuse(&self.key, format_args!("`{}` needs a value: {}", self.key, self.known.example()));
        }
        self.refuse(next_token(self.input), self.known.takes())
    }

    fn refuse<T>(&self, tokens: impl ToTokens, message: impl Display) -> Option<T> {
        self.wrong(tokens, message);
        None
    }
}

/// Returns the expression without the invisible brackets of `macro_rules!`.
fn without_groups(expression: &Expr) -> &Expr {
    match expression {
        Expr::Group(group) => without_groups(&group.expr),
        _ => expression,
    }
}

/// Returns whether the number is digits alone: unit and quotes were forgotten.
fn is_plain(number: &LitInt) -> bool {
    number.suffix().is_empty() && number.base10_parse::<u64>().is_ok()
}

fn next_token(input: ParseStream<'_>) -> Option<TokenTree> {
    input.cursor().token_tree().map(|(token, _)| token)
}

/// Returns whether a derive is one of serde's, which a crate such as rkyv may have by the same name.
fn is_of_serde(path: &Path) -> bool {
    let mut names = path.segments.iter().rev().map(|segment| &segment.ident);
    let is_derive = names.next().is_some_and(|name| name == "Serialize" || name == "Deserialize");
    is_derive && names.next().is_none_or(|home| home == "serde")
}

/// Goes from the end of a value to the next option; records other tokens before its comma as a mistake.
fn go_on(input: ParseStream<'_>, errors: &Errors, position: Position, known: &Known) {
    if !input.is_empty() && !input.peek(Token![,]) {
        let ahead = input.fork();
        match ahead.call(Ident::parse_any) {
            Ok(next) if ahead.peek(Token![=]) || (next == DERIVE && ahead.peek(Paren)) => {
                errors.at(position, &next, format_args!("expected `,` before `{next}`"));
                return;
            }
            _ => errors.at(position, next_token(input), known.takes()),
        }
    }
    skip::<()>(input);
}

/// Skips the rest of this option, its comma included.
fn skip<T>(input: ParseStream<'_>) -> Option<T> {
    skip_to_comma(input);
    let _ = input.parse::<Token![,]>();
    None
}

/// Skips the rest of this option.
pub(super) fn skip_to_comma(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        if input.parse::<TokenTree>().is_err() {
            break;
        }
    }
}
