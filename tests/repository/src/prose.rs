//! Checks how comments, pages, names and messages are written, as far as a program can tell: the subject of a sentence is named, and
//! pictures are left out.

use crate::{
    source::{Kind, sources},
    tree::{files, none, read},
};

/// Ways to begin a clause without a subject, in lower case.
const WITHOUT_A_SUBJECT: [&str; 9] = [
    "whoever",
    "whom",
    "those who",
    "the one who",
    "ones who",
    "others who",
    "somebody who",
    "nobody who",
    "everybody who",
];
/// Names of former times, in lower case.
const PICTURES: [&str; 12] = [
    "bell",
    "bells",
    "grave",
    "dice",
    "errand",
    "desk",
    "clerk",
    "back door",
    "by hand of",
    "at the door",
    "in line",
    "end of the line",
];
/// Subjects and objects of comments in code that name nothing.
const NAMELESS: [&str; 4] = ["somebody", "anybody", "everybody", "nobody"];
/// Words that may follow "is no".
const AFTER_IS_NO: [&str; 15] = [
    "longer", "more", "such", "end", "way", "room", "news", "none", "better", "business", "match", "answer", "time",
    "use", "help",
];

/// Signs that end a sentence, the semicolon of two sentences in one included.
const ENDS: [char; 4] = ['.', '!', '?', ';'];
/// Signs that end a sentence of a message: the text behind a colon is one of its own.
const ENDS_OF_MESSAGES: [char; 5] = ['.', '!', '?', ';', ':'];

/// Returns the fault of a sentence whose subject is a bare "what" or "who". A question may begin so.
fn bare_subject(text: &str, ends: &[char]) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_mark = |c: char| ['*', '_', '"', '(', ')'].contains(&c);
    let mut sentences = words.split_inclusive(|word| word.trim_end_matches(is_mark).ends_with(ends));
    let bare = sentences.find(|sentence| {
        let first = sentence[0].trim_matches(is_mark).to_lowercase();
        let is_question = sentence.last().is_some_and(|last| last.trim_end_matches(is_mark).ends_with('?'));
        ["what", "who"].contains(&first.as_str()) && !is_question
    })?;
    let beginning = &bare[..bare.len().min(4)];
    Some(format!("a sentence begins with \"{} …\": name the thing", beginning.join(" ")))
}

/// Returns the fault of a paragraph of a comment in code.
fn fault_in_code(text: &str) -> Option<String> {
    let mut words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.find(|word| NAMELESS.contains(&word.to_lowercase().as_str())).map(|word| format!("\"{word}\""))
}

/// Returns the fault of a name in `snake_case`, which is read as a sentence.
fn fault_in_name(name: &str) -> Option<String> {
    let sentence = name.replace('_', " ");
    let found = fault(&sentence).or_else(|| fault_in_code(&sentence));
    found.map(|fault| format!("`{name}`: {fault}"))
}

/// Returns the fault of a message, in which a single word is a name.
fn fault_in_message(text: &str) -> Option<String> {
    let is_text = text.trim().contains(' ');
    let found = || fault(text).or_else(|| fault_in_code(text)).or_else(|| bare_subject(text, &ENDS_OF_MESSAGES));
    is_text.then(found).flatten()
}

/// Returns the fault of a sentence of a comment or a page.
fn fault(text: &str) -> Option<String> {
    let words: Vec<String> = text
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric() && c != '`').to_lowercase())
        .collect();
    let flat = format!(" {} ", words.join(" "));
    let found = WITHOUT_A_SUBJECT.iter().chain(&PICTURES).find(|phrase| flat.contains(&format!(" {phrase} ")));
    if let Some(phrase) = found {
        return Some(format!("\"{phrase}\""));
    }
    let is_no = words.windows(4).find(|four| {
        ["is", "are", "was", "were"].contains(&four[1].as_str())
            && four[2] == "no"
            && !["there", "here"].contains(&four[0].as_str())
            && !AFTER_IS_NO.contains(&four[3].as_str())
    });
    is_no.map(|four| format!("\"{} no {}\": write \"not a …\"", four[1], four[3]))
}

/// The paragraphs of comments, or of a page outside its programs, with the line where each begins. Each entry of a list, row of a table
/// and heading of a page is one.
fn paragraphs(path: &str, text: &str) -> Vec<(usize, String)> {
    let is_page = path.ends_with(".md");
    let marks: &[&str] = if path.ends_with(".rs") || path.ends_with(".js") { &["//!", "///", "//"] } else { &["--"] };
    let (mut found, mut current, mut is_program) = (Vec::new(), (0, String::new()), false);
    for (number, line) in text.lines().enumerate() {
        // The name of a statement is not a sentence.
        let line = if line.starts_with("-- name: ") { "" } else { line.trim() };
        let prose =
            if is_page { Some(line) } else { marks.iter().find_map(|mark| line.strip_prefix(mark)).map(str::trim) };
        let is_fence = prose.is_some_and(|prose| prose.starts_with("```"));
        is_program = prose.is_some() && (is_program != is_fence);
        let is_apart = prose.is_some_and(|prose| is_page && prose.starts_with(['-', '|', '#']));
        if is_apart && !current.1.is_empty() {
            found.push(std::mem::take(&mut current));
        }
        match prose.map(|prose| prose.strip_prefix("- ").unwrap_or(prose)) {
            Some(prose) if !prose.is_empty() && !is_program && !is_fence => {
                if current.1.is_empty() {
                    current.0 = number + 1;
                }
                current.1.push_str(prose);
                current.1.push(' ');
            }
            _ if !current.1.is_empty() => found.push(std::mem::take(&mut current)),
            _ => {}
        }
    }
    found.extend((!current.1.is_empty()).then_some(current));
    found
}

#[test]
fn the_subject_of_a_sentence_is_named() {
    let read_as_prose = |path: &String| [".rs", ".js", ".lua", ".sql", ".md"].iter().any(|end| path.ends_with(end));
    // Text of others' making, in tests of what is foreign; steps that files of users have taken; and this rule's own words.
    let is_ours = |path: &String| {
        !["/vectors/", "/migrations/", "/uplot/"].iter().any(|folder| path.contains(folder))
            && !path.ends_with("repository/src/prose.rs")
    };
    let mut broken = Vec::new();
    for path in files("").into_iter().filter(read_as_prose).filter(is_ours) {
        for (line, paragraph) in paragraphs(&path, &read(&path)) {
            let is_code = !path.ends_with(".md");
            let found = fault(&paragraph)
                .or_else(|| is_code.then(|| fault_in_code(&paragraph)).flatten())
                .or_else(|| bare_subject(&paragraph, &ENDS));
            broken.extend(found.map(|fault| format!("{path}:{line}: {fault}")));
        }
    }
    none(
        broken,
        "a sentence names its subject (the server, the caller, a client …) and takes its words from the field",
    );
}

#[test]
fn a_message_names_its_subject() {
    let mut broken = Vec::new();
    for krate in
        files("").iter().filter_map(|path| path.strip_suffix("/src/lib.rs")).filter(|path| path.starts_with("asynq-"))
    {
        for source in sources(&format!("{krate}/src")) {
            for token in source.tokens.iter().filter(|token| token.kind == Kind::Literal) {
                let Ok(text) = syn::parse_str::<syn::LitStr>(&token.text) else { continue };
                let found = fault_in_message(&text.value());
                broken.extend(found.map(|fault| format!("{}:{}: {fault}", source.path, token.line)));
            }
        }
    }
    none(broken, "a message names its subject and takes its words from the field");
}

#[test]
fn the_names_of_functions_are_words_of_the_field() {
    let mut broken = Vec::new();
    for path in files("").into_iter().filter(|path| path.ends_with(".rs")) {
        for (number, line) in read(&path).lines().enumerate() {
            let Some((before, after)) = line.split_once("fn ") else { continue };
            let is_item = before
                .trim()
                .split(' ')
                .all(|word| ["", "async", "const", "unsafe", "pub"].contains(&word) || word.starts_with("pub("));
            let name = after.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default();
            let found = is_item.then(|| fault_in_name(name)).flatten();
            broken.extend(found.map(|fault| format!("{path}:{}: {fault}", number + 1)));
        }
    }
    none(broken, "a name says what it is in the words of the field");
}

#[test]
fn the_rule_sees_these_cases() {
    assert!(fault_in_code("Somebody else has it.").is_some() && fault_in_code("Says what to write.").is_none());
    for (text, is_seen) in [
        ("What the server does.", true),
        ("It waits. Who asks gets an answer.", true),
        ("(It waits.) **What** is due goes", true),
        ("It waits; what is due goes.", true),
        ("Says what to write, and who wrote it.", false),
        ("It waits. What wakes it?", false),
        ("It waits for `a.What`.", false),
        ("It is over: what runs is requeued", false),
    ] {
        assert_eq!(bare_subject(text, &ENDS).is_some(), is_seen, "{text}");
    }
    for (text, is_seen) in [
        ("it is over: what runs is requeued", true),
        ("a task of nobody", true),
        ("the caller is no client", true),
        ("nobody", false),
        ("it is over: jobs that run are requeued", false),
    ] {
        assert_eq!(fault_in_message(text).is_some(), is_seen, "{text}");
    }
    for (name, is_seen) in [
        ("a_task_that_is_no_job", true),
        ("it_is_no_longer_there", false),
        ("there_is_no_such_task", false),
        ("nobody_waits", true),
        ("a_caller_waits", false),
    ] {
        assert_eq!(fault_in_name(name).is_some(), is_seen, "{name}");
    }
    let cases = [
        ("Wakes whoever waits.", true),
        ("The server that waits is woken.", false),
        ("A place for those who wait.", true),
        ("There is no such task.", false),
        ("It is no failure.", true),
        ("It is no longer there.", false),
        ("It is not a failure.", false),
        ("Rings the bell.", true),
        ("Waits last in line.", true),
        ("Waits in a line of text.", false),
        ("A user who logs out.", false),
    ];
    for (text, is_seen) in cases {
        assert_eq!(fault(text).is_some(), is_seen, "{text}");
    }
    let source = "/// Told to\n/// whom it concerns.\nfn f() {}\n// ```\n// whoever\n// ```\n";
    assert_eq!(paragraphs("a.rs", source), [(1, "Told to whom it concerns. ".to_owned())]);
    let page = "# Who\n\nText\n- an\n  entry\n| a | row |\n";
    let found: Vec<String> = paragraphs("a.md", page).into_iter().map(|(_, text)| text).collect();
    assert_eq!(found, ["# Who ", "Text ", "an entry ", "| a | row | "]);
}
