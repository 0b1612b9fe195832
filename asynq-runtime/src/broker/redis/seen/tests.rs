//! Tests that answers hold until a change of their key is announced.

use super::*;

fn length(key: &str) -> Question {
    Question::new(Kind::Length, key.to_owned())
}

fn keys(keys: &[&str]) -> Change {
    Change::Keys(keys.iter().map(|&key| key.to_owned()).collect())
}

#[test]
fn a_topic_that_finds_a_known_answer_is_notified_of_its_change() {
    let (mut seen, now) = (Seen::default(), Instant::now());
    let question = length("a");
    let read = seen.begin_read(Topic::Cleaning, &[&question]);
    seen.answered(read, &question, Some(0), now);
    assert_eq!(seen.unknown(Topic::Work, [&question], now), Vec::<&Question>::new());
    let before = [Topic::Work, Topic::Cleaning, Topic::Due].map(|topic| seen.changes_of(topic));
    seen.changed(&keys(&["a"]));
    let after = [Topic::Work, Topic::Cleaning, Topic::Due].map(|topic| seen.changes_of(topic));
    assert_eq!([0, 1, 2].map(|i| after[i] - before[i]), [1, 1, 0]);
}

#[test]
fn only_changed_keys_are_asked_again() {
    let (mut seen, now) = (Seen::default(), Instant::now());
    let questions = [length("a"), length("b"), Question::new(Kind::Exists, "a".to_owned())];
    let unknown: Vec<&Question> = seen.unknown(Topic::Work, &questions, now);
    assert_eq!(unknown.len(), 3);
    let read = seen.begin_read(Topic::Work, &unknown);
    questions.iter().for_each(|question| seen.answered(read, question, Some(0), now));
    assert_eq!(seen.unknown(Topic::Work, &questions, now), [] as [&Question; 0]);
    seen.changed(&keys(&["b", "elsewhere"]));
    assert_eq!(seen.unknown(Topic::Work, &questions, now), [&questions[1]]);
    assert_eq!((seen.answer(&questions[0]), seen.answer(&questions[1])), (Some(Some(0)), None));
    seen.changed(&keys(&["a"]));
    assert_eq!(seen.unknown(Topic::Work, &questions, now).len(), 3, "all that was asked of the key");
    seen.changed(&Change::All);
    assert_eq!(seen.unknown(Topic::Work, &questions, now).len(), 3);
}

#[test]
fn a_key_was_evicted_where_it_was_announced_and_exists_or_not_as_before() {
    let (mut seen, now) = (Seen::default(), Instant::now());
    let paused = Question::new(Kind::Exists, "a".to_owned());
    let note = |seen: &mut Seen, read, question: &Question, answer| {
        let was_evicted = seen.was_evicted(read, question, answer);
        seen.answered(read, question, answer, now);
        was_evicted
    };
    let read = |seen: &mut Seen, question: &Question, answer| {
        let read = seen.begin_read(Topic::Work, &[question]);
        note(seen, read, question, answer)
    };
    assert!(!read(&mut seen, &paused, Some(0)));
    assert!(!read(&mut seen, &paused, Some(0)), "it is asked again every while");
    seen.changed(&keys(&["a"]));
    assert!(!read(&mut seen, &paused, Some(1)), "it has changed");
    seen.changed(&keys(&["a"]));
    assert!(read(&mut seen, &paused, Some(1)));
    assert!(!read(&mut seen, &paused, Some(1)));
    let overtaken = |seen: &mut Seen, question: &Question| {
        let read = seen.begin_read(Topic::Work, &[question]);
        seen.changed(&keys(&["a"]));
        note(seen, read, question, Some(1))
    };
    assert_eq!([0; 3].map(|_| overtaken(&mut seen, &paused)), [false, true, true], "announced before the answer came");
    seen.changed(&Change::All);
    assert!(!read(&mut seen, &paused, Some(1)), "the connection was lost");
    assert_eq!([0; 3].map(|_| overtaken(&mut seen, &length("a"))), [false; 3], "tasks come and go");
}

/// A slot map that has changed, as after a resharding, announces no key by name.
#[test]
fn an_answer_on_its_way_when_anything_may_have_changed_tells_of_no_eviction() {
    let (mut seen, now) = (Seen::default(), Instant::now());
    let paused = Question::new(Kind::Exists, "a".to_owned());
    let overtaken = seen.begin_read(Topic::Work, &[&paused]);
    seen.changed(&Change::All);
    assert!(!seen.was_evicted(overtaken, &paused, Some(0)));
    seen.answered(overtaken, &paused, Some(0), now);
    let read = seen.begin_read(Topic::Work, &[&paused]);
    assert!(!seen.was_evicted(read, &paused, Some(0)));
    seen.answered(read, &paused, Some(0), now);
    seen.changed(&keys(&["a"]));
    let read = seen.begin_read(Topic::Work, &[&paused]);
    assert!(seen.was_evicted(read, &paused, Some(0)));
}

#[test]
fn an_answer_that_a_change_has_overtaken_does_not_count() {
    let (mut seen, now, a) = (Seen::default(), Instant::now(), length("a"));
    let first = seen.begin_read(Topic::Work, &[&a]);
    seen.changed(&keys(&["a"]));
    seen.answered(first, &a, Some(0), now);
    assert_eq!(seen.answer(&a), None);
    // Another caller has asked again before the first answer came.
    let first = seen.begin_read(Topic::Work, &[&a]);
    seen.changed(&keys(&["a"]));
    let second = seen.begin_read(Topic::Work, &[&a]);
    seen.answered(first, &a, Some(0), now);
    assert_eq!(seen.answer(&a), None);
    seen.answered(second, &a, Some(1), now);
    assert_eq!(seen.answer(&a), Some(Some(1)));
    // The answer of the second caller was noted first.
    seen.answered(first, &a, Some(0), now);
    assert_eq!(seen.answer(&a), Some(Some(1)));
    // Two callers ask at once, and nothing changes: either answer holds.
    seen.forget(&a);
    let (first, second) = (seen.begin_read(Topic::Work, &[&a]), seen.begin_read(Topic::Work, &[&a]));
    seen.answered(second, &a, Some(2), now);
    assert_eq!(seen.answer(&a), Some(Some(2)));
    seen.answered(first, &a, Some(2), now);
    assert_eq!(seen.answer(&a), Some(Some(2)));
    seen.forget(&a);
    assert_eq!(seen.answer(&a), None);
}

/// Returns a function that looks at `n` keys, of which none is known yet, so many times [`NET`] after now. It notes an answer to
/// each question that has to be asked, and returns the numbers of their keys.
fn looks(n: usize) -> impl FnMut(u32) -> Vec<usize> {
    let (mut seen, start) = (Seen::default(), Instant::now());
    let questions: Vec<Question> = (0..n).map(|i| length(&i.to_string())).collect();
    move |at| {
        let now = start + NET * at;
        let unknown = seen.unknown(Topic::Work, &questions, now);
        let read = seen.begin_read(Topic::Work, &unknown);
        unknown.iter().for_each(|question| seen.answered(read, question, Some(0), now));
        unknown.iter().map(|question| question.key.parse().unwrap()).collect()
    }
}

#[test]
fn the_oldest_answers_are_asked_again_every_while_and_only_so_many() {
    let mut look = looks(100);
    assert_eq!(look(0).len(), 100);
    assert!(look(0).is_empty());
    let again: Vec<usize> = (1..=4).flat_map(look).collect();
    assert_eq!(again[..100], (0..100).collect::<Vec<_>>(), "in turn");
    assert_eq!(again.len(), 4 * NET_SIZE);
}

/// A server of many queues looks at all of them every minute, and may be suspended for hours.
#[test]
fn however_long_ago_the_last_look_was_no_more_answers_are_asked_again_than_a_few() {
    let mut look = looks(10_000);
    assert_eq!(look(0).len(), 10_000);
    assert_eq!([6, 606, 607].map(|at| look(at).len()), [192, 192, 32]);
}

#[test]
fn a_key_about_which_no_component_asks_any_more_is_forgotten_as_if_it_had_changed() {
    let (mut seen, start) = (Seen::default(), Instant::now());
    let (served, gone) = (length("served"), Question::new(Kind::Exists, "gone".to_owned()));
    let unknown = seen.unknown(Topic::Work, [&served, &gone], start);
    let read = seen.begin_read(Topic::Work, &unknown);
    unknown.into_iter().for_each(|question| seen.answered(read, question, Some(0), start));
    let before = seen.changes();
    for minutes in 1..=20 {
        seen.unknown(Topic::Work, [&served], start + minutes * Duration::from_secs(60));
    }
    assert_eq!((seen.answer(&served), seen.answer(&gone)), (Some(Some(0)), None));
    assert_eq!((seen.keys.len(), seen.existed.len()), (1, 0));
    assert!(seen.changed_since(before, Topic::Work).unwrap().eq(["gone"]));
}

#[test]
fn a_key_has_no_room_for_answers_that_are_not_asked_for() {
    let (mut seen, head) = (Seen::default(), Question::new(Kind::Head, "a".to_owned()));
    seen.begin_read(Topic::Due, &[&head]);
    assert_eq!(seen.keys["a"].known.capacity(), 1);
}

#[test]
fn a_topic_receives_its_own_keys_and_those_that_another_caller_has_forgotten() {
    let (mut seen, now, a, b) = (Seen::default(), Instant::now(), length("a"), length("b"));
    let read = |seen: &mut Seen, topic, question: &Question| {
        let read = seen.begin_read(topic, &[question]);
        seen.answered(read, question, Some(0), now);
    };
    let both = |seen: &mut Seen| [Topic::Work, Topic::Due].map(|topic| seen.changes_of(topic));
    assert_eq!(both(&mut seen), [0, 0]);
    read(&mut seen, Topic::Work, &a);
    read(&mut seen, Topic::Due, &b);
    seen.changed(&keys(&["a", "elsewhere"]));
    assert_eq!(both(&mut seen), [1, 0]);
    seen.forget(&b);
    assert_eq!(seen.answer(&b), None);
    seen.changed(&keys(&["b"]));
    assert_eq!(both(&mut seen), [1, 1]);
    // A change of a key that was read for both topics is announced to both.
    read(&mut seen, Topic::Work, &a);
    read(&mut seen, Topic::Due, &a);
    seen.changed(&keys(&["a"]));
    assert_eq!(both(&mut seen), [2, 2]);
    seen.changed(&Change::All);
    assert_eq!(both(&mut seen), [3, 3]);
}

#[test]
fn an_invalidation_names_its_keys_and_one_without_keys_is_about_everything() {
    let push = |data| PushInfo { kind: PushKind::Invalidate, data };
    let named = Value::Array(vec![Value::BulkString(b"a".to_vec())]);
    assert_eq!(Change::read(push(vec![named])), Some(keys(&["a"])));
    assert_eq!(Change::read(push(vec![Value::Nil])), Some(Change::All));
    assert_eq!(Change::read(PushInfo { kind: PushKind::Message, data: Vec::new() }), None);
}
