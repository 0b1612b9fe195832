//! Compares the expansions of `#[job]` with the golden files in `tests/expansion`: two are whole, the others show
//! differences.
//!
//! A golden file begins with its input. `BLESS=1 cargo test -p asynq-macros` writes them anew; read the difference.

use std::{fs, path::PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::job::Attribute;

const MINIMAL: &str = r#"
/// Says hello.
#[job]
async fn hello(name: String) -> JobResult {
    println!("hello {name}");
    Ok(())
}
"#;

const PERIODIC: &str = r#"
/// Looks whether all is well.
#[periodic("*/5 * * * *")]
async fn ping() -> JobResult {
    Ok(())
}
"#;

#[test]
fn minimal() {
    golden("minimal", MINIMAL);
}

#[test]
fn most_options() {
    golden(
        "most_options",
        r#"
#[job(
    queue = "critical",
    retry = 5,
    timeout = "3m",
    deadline = "1h30m",
    expires = "1h500ms",
    unique = "1h",
    unique_by = "to, campaign",
    unique_until = "success",
    unique_extend = true,
    group = "mails",
    backoff = "exponential(500ms, 10m)",
    retention = "7d",
    name = "email:send",
    alias = ["send_mail", "mail"],
    upgrade = [old::from_v1, from_v2],
    codec = "postcard",
    fingerprint = "v2",
    on_error = policies::mail,
    on_archive = gave_up,
    max_crashes = 3,
)]
async fn send_email(to: String, campaign: u64, subject: String) -> Result<(), MailError> {
    todo!()
}
"#,
    );
}

#[test]
fn no_arguments() {
    golden("no_arguments", "#[job]\nasync fn cleanup() {}");
}

#[test]
fn single_argument() {
    golden(
        "single_argument",
        r#"
#[job(name = "image:resize", codec = "json", retention = "1h")]
pub async fn resize(args: Resize) -> JobResult<u64> {
    Ok(u64::from(args.width))
}
"#,
    );
}

#[test]
fn borrowed_arguments() {
    golden(
        "borrowed_arguments",
        r#"
#[job]
async fn archive(to: &str, tags: &[Tag], order: &Order, file: &Path) -> JobResult {
    Ok(())
}
"#,
    );
}

#[test]
fn string_arguments() {
    golden(
        "string_arguments",
        r#"
#[job]
async fn log(a: String, b: ::std::string::String, c: Option<String>) -> JobResult {
    Ok(())
}
"#,
    );
}

#[test]
fn context_and_state() {
    golden(
        "context_and_state",
        r#"
#[job]
pub async fn deliver(ctx: &JobContext, mailer: State<Mailer>, to: &str, pool: runtime::State<Pool>) -> JobResult {
    mailer.send(to).await
}
"#,
    );
}

#[test]
fn checkpoint() {
    golden(
        "checkpoint",
        r#"
#[job]
async fn import(ctx: &JobContext, cursor: Checkpoint<u64>, file: String) -> JobResult {
    cursor.save(1).await?;
    Ok(())
}
"#,
    );
}

#[test]
fn checkpoint_in_a_blocking_job() {
    golden(
        "checkpoint_in_a_blocking_job",
        r#"
#[job]
fn import(cursor: runtime::Checkpoint<(u64, String)>, file: &Path) {
    body()
}
"#,
    );
}

#[test]
fn blocking() {
    golden(
        "blocking",
        r#"
#[job(kill_after = "1m30s")]
pub fn thumbnail(path: String) -> JobResult {
    std::fs::metadata(path)?;
    Ok(())
}
"#,
    );
}

#[test]
fn blocking_with_context_and_state() {
    golden(
        "blocking_with_context_and_state",
        r#"
#[job]
fn thumbnail(store: State<Store>, ctx: &JobContext, path: &str, size: u32) -> JobResult<u64> {
    store.shrink(path, size)
}
"#,
    );
}

#[test]
fn debounce() {
    golden(
        "debounce",
        r#"
#[job(unique_by = "doc", debounce = "1500ms", debounce_max = "5m")]
async fn index(doc: u64, text: String) -> JobResult {
    Ok(())
}
"#,
    );
}

#[test]
fn unique_by_one() {
    golden(
        "unique_by_one",
        r#"
#[job(unique = "1d", unique_by = "to")]
async fn greet(to: String, text: String) -> JobResult {
    Ok(())
}
"#,
    );
}

#[test]
fn on_error_in_a_blocking_job() {
    golden(
        "on_error_in_a_blocking_job",
        r#"
#[job(on_error = PayError::policy)]
fn pay(cents: u64) -> Result<Receipt, PayError> {
    charge(cents)
}
"#,
    );
}

#[test]
fn without_a_body() {
    golden(
        "without_a_body",
        r#"
/// Makes a picture smaller.
#[job]
pub async fn resize(path: &str, width: u32) -> Result<u64, ImageError>;
"#,
    );
}

#[test]
fn pauses() {
    golden(
        "backoff_by_a_function",
        r#"
#[job(backoff = pauses::gentle, unique = "1h", unique_until = "start")]
async fn sync() -> JobResult {
    Ok(())
}
"#,
    );
    let constant = expand("#[job(backoff = \"30s\")] fn a() {}");
    assert!(constant.contains("__rt::Backoff::constant(__rt::Duration::from_secs(30))"), "{constant}");
    let linear = expand("#[job(backoff = \"linear(2m)\")] fn a() {}");
    assert!(linear.contains("__rt::Backoff::linear(__rt::Duration::from_secs(120))"), "{linear}");
}

#[test]
fn aggregates() {
    golden(
        "aggregates",
        r#"
#[job(aggregates = mails::note)]
async fn digest(ctx: &JobContext, notes: Vec<mails::note>, mailer: State<Mailer>) -> JobResult {
    mailer.send(ctx.group(), &notes).await
}
"#,
    );
}

#[test]
fn schedules() {
    golden("periodic", PERIODIC);
    golden(
        "periodic_with_every_option",
        r#"
#[periodic("0 9 * * mon-fri", tz = "Europe/Berlin", missed = "all(100)", overlap = "skip", jitter = "1500ms", queue = "low")]
async fn report(ctx: &JobContext, tick: Tick, mailer: State<Mailer>) -> Result<u32, MailError> {
    mailer.send(ctx.id(), tick.scheduled_at()).await
}
"#,
    );
    golden(
        "periodic_and_blocking",
        r#"
#[periodic("TZ=Asia/Tokyo @daily", overlap = "replace", missed = "skip")]
fn archive(tick: Tick) {
    println!("{tick:?}");
}
"#,
    );
    // Without a zone in front, the runtime does not read a schedule that ends in white space.
    let padded = expand("#[periodic(\"TZ=Asia/Tokyo @daily \")] fn a() {}");
    assert!(padded.contains("\"@daily\""), "{padded}");
}

#[test]
fn restricted_visibility() {
    golden("restricted_visibility", "#[job]\npub(crate) async fn tick(at: u64) {}");
}

#[test]
fn raw_identifiers() {
    golden(
        "raw_identifiers",
        r#"
#[job(unique = "5m", unique_by = "type")]
async fn r#match(r#type: u8, value: u8) -> JobResult {
    Ok(())
}
"#,
    );
}

#[test]
fn attributes() {
    golden(
        "attributes",
        r#"
/// Old.
#[job]
#[deprecated = "use `new`"]
#[allow(clippy::too_many_lines)]
#[tracing::instrument(skip_all)]
#[inline]
pub async fn old(
    /// The receiver.
    to: String,
    #[serde(default, rename = "Retries")]
    #[allow(unused)]
    retries: u8,
) -> JobResult {
    Ok(())
}
"#,
    );
}

#[test]
fn renamed_crate() {
    golden(
        "renamed_crate",
        r#"
#[job(crate = ::jobs::inner)]
async fn hello(state: State<Db>, name: &str) -> JobResult {
    Ok(())
}
"#,
    );
}

#[test]
fn a_wrong_option_leaves_the_others() {
    golden(
        "a_wrong_option_leaves_the_others",
        r#"
#[job(queue = "low", retyr = 5, timeout = "3 parsecs")]
async fn hello(name: String) -> JobResult {
    Ok(())
}
"#,
    );
}

#[test]
fn a_wrong_signature_leaves_a_stub() {
    golden(
        "a_wrong_signature_leaves_a_stub",
        r#"
#[job]
async fn hello(name: String, (a, b): (u8, u8), ctx: JobContext) -> JobResult {
    Ok(())
}
"#,
    );
}

#[test]
fn a_generic_function_leaves_a_stub_of_any_types() {
    golden(
        "a_generic_function_leaves_a_stub_of_any_types",
        r#"
#[job]
async fn hello<T: Send>(name: T) -> JobResult
where
    T: Clone,
{
    Ok(())
}
"#,
    );
}

#[test]
fn a_method_is_left_alone() {
    golden("a_method_is_left_alone", "#[job]\nasync fn hello(&self, name: String) {}");
}

#[test]
fn a_parameter_with_a_mistake_causes_no_second_error() {
    for source in [
        "#[job(unique = \"1h\", unique_by = \"to\")] async fn a(to: str) {}",
        "#[job(aggregates = note)] async fn a(notes: [note]) {}",
        "#[job] async fn a(#[cfg(test)] pool: State<Pool>) {}",
    ] {
        let expansion = expand(source);
        assert_eq!(expansion.matches("compile_error").count(), 1, "{expansion}");
        // A caller gives a value for each argument, and for nothing else.
        let is_argument = !source.contains("State");
        assert_eq!(expansion.contains("argument_0: impl"), is_argument, "{expansion}");
    }
}

/// The job can be stored only if its arguments can, so that the check of such an argument would depend on itself.
#[test]
fn an_argument_that_holds_its_job_is_not_checked() {
    let expansion = expand("#[job] async fn walk(depth: u8, then: Vec<walk>) {}");
    assert!(expansion.contains("<u8 as __rt::Argument>::FITS"), "{expansion}");
    assert!(!expansion.contains("<Vec<walk> as __rt::Argument>::FITS"), "{expansion}");
}

#[test]
fn a_value_of_the_context_may_be_taken_apart() {
    let expansion = expand("#[job] async fn a(#[from_context] Header(id): Header, month: u8) {}");
    assert!(!expansion.contains("compile_error"), "{expansion}");
}

#[test]
fn a_renamed_crate_leaves_no_trace_of_the_usual_path() {
    let expansion =
        expand("#[job(crate = ::jobs)] fn a(ctx: &JobContext, s: State<S>, x: &str) -> JobResult { body() }");
    assert!(!expansion.contains("asynq"), "{expansion}");
}

/// The expansions that are written whole; the files of all others show a difference.
const WHOLE: [&str; 2] = ["minimal", "periodic"];

fn golden(feature: &str, input: &str) {
    let (input, expansion) = (input.trim(), expand(input));
    // `::core` may be a dependency of the user. The path of `compile_error!` is syn's.
    assert!(!expansion.replace("::core::compile_error!", "").contains("::core::"), "{expansion}");
    let (ending, content) =
        if WHOLE.contains(&feature) { ("rs", expansion) } else { ("diff", difference(input, &expansion)) };
    let actual = format!("// {}\n\n{content}", input.replace('\n', "\n// ").replace("// \n", "//\n"));
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/expansion/{feature}.{ending}"));
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &actual).expect("write the golden file");
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == actual, "{} differs; BLESS=1 writes it anew. The file is now:\n{actual}", path.display());
}

/// Returns the difference to the expansion of the same job without options, or, for a job without options, of a plain job of
/// its name. There are no line numbers, which every change would move.
fn difference(input: &str, expansion: &str) -> String {
    let plain = match (input.split_once("#[job("), input.split_once(")]")) {
        (Some((before, _)), Some((_, after))) => expand(&format!("{before}#[job]{after}")),
        _ => {
            let (whole, its_name) = if input.contains("#[periodic") { (PERIODIC, "ping") } else { (MINIMAL, "hello") };
            let name = input.split("fn ").nth(1).expect("a function");
            let name: String = name.chars().take_while(|c| !"(<".contains(*c)).collect();
            expand(&whole.replace(its_name, &name))
        }
    };
    let difference =
        similar::TextDiff::from_lines(plain.as_str(), expansion).unified_diff().context_radius(1).to_string();
    let lines =
        difference.lines().map(|line| if line.starts_with("@@") { "@@\n".to_owned() } else { format!("{line}\n") });
    lines.collect()
}

#[test]
fn a_periodic_without_its_feature_is_one_error_beside_the_function() {
    let function: TokenStream = "async fn ping() {}".parse().expect("tokens");
    let expanded = crate::without_cron(&function).to_string();
    assert!(expanded.contains("comes with the feature `cron`"), "{expanded}");
    assert!(expanded.ends_with(&function.to_string()), "{expanded}");
}

/// Expands `source` as the compiler does: takes the first `#[job(…)]` away and passes its inside and the rest to the macro.
fn expand(source: &str) -> String {
    let mut rest: Vec<TokenTree> = source.parse::<TokenStream>().expect("tokens").into_iter().collect();
    let is_job = |token: &TokenTree| match token {
        TokenTree::Group(group) => ["job", "periodic"].iter().any(|name| group.stream().to_string().starts_with(name)),
        _ => false,
    };
    let at = rest.iter().position(is_job).expect("`#[job]`");
    let attribute = rest.drain(at - 1..=at).next_back().expect("the brackets");
    let TokenTree::Group(attribute) = attribute else { panic!("`#[job]` is a group") };
    let options = attribute
        .stream()
        .into_iter()
        .find_map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => Some(group.stream()),
            _ => None,
        })
        .unwrap_or_default();
    let kind = match attribute.stream().to_string().starts_with("periodic") {
        true => Attribute::Periodic,
        false => Attribute::Job,
    };
    let tokens = crate::job::expand(kind, crate::paths::Home::Runtime, options, rest.into_iter().collect());
    prettyplease::unparse(&syn::parse2(tokens).expect("items"))
}
