//! The screens of the view on a real broker, and the effects of keys.

mod hostile;
mod mishaps;
mod picture;
mod seeded;

use asynq_runtime::{TaskState, task::QueueName};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::{Terminal, backend::TestBackend};

use self::seeded::seeded;
use super::{
    act,
    model::{Dialog, Model, Step, TABS},
    requests::{self, Requests},
    screen::Screen,
    show,
};
use crate::dash::load::Wanted;

/// A view on a broker, with a screen that is never shown.
struct Watcher {
    fixture: asynq_tests::Fixture<asynq_tests::SqliteStore>,
    client: asynq_runtime::Client,
    model: Model,
    terminal: Terminal<TestBackend>,
    requests: Requests,
}

impl Watcher {
    /// Opens the view on queues, tasks of every state, a server and a periodic entry.
    async fn start() -> Self {
        let (fixture, client) = seeded().await;
        Self::on(fixture, client).await
    }

    /// Opens the view on the broker of `client`.
    async fn on(fixture: asynq_tests::Fixture<asynq_tests::SqliteStore>, client: asynq_runtime::Client) -> Self {
        // The name of the file differs between runs.
        let model = Model::new("sqlite://asynq.db".to_owned(), true);
        let terminal = Terminal::new(TestBackend::new(120, 24)).unwrap();
        let requests = Requests::new(&client);
        let mut watcher = Self { fixture, client, model, terminal, requests };
        watcher.follow(Step::Load).await;
        watcher
    }

    /// Performs `step` and all steps that follow from it, as the program does.
    async fn follow(&mut self, step: Step) {
        let mut step = step;
        // The bound keeps a step that leads on for ever from hanging the test.
        for _ in 0..100 {
            show(&mut self.terminal, &mut self.model, &mut self.requests, step == Step::Load).unwrap();
            step = match step {
                Step::Act(act) => self.model.show_result(act::perform(&self.client, act).await),
                Step::Quit => panic!("left the view"),
                _ if self.requests.is_loading() => self.model.take(self.requests.answer().await),
                _ => return,
            };
        }
        panic!("it never stays: {step:?}");
    }

    /// Goes from one list of tasks to the next until it is that of `state`.
    async fn select_tab(&mut self, state: TaskState) {
        let is_there = |screen: &Screen| matches!(&screen.wanted, Wanted::Tasks(list) if list.state == state);
        for _ in TABS {
            if is_there(self.model.screen()) {
                return;
            }
            self.keys("l").await;
        }
        panic!("no list of tasks that are {state}");
    }

    async fn press(&mut self, code: KeyCode) {
        let step = self.model.press(KeyEvent::from(code));
        self.follow(step).await;
    }

    async fn keys(&mut self, keys: &str) {
        for key in keys.chars() {
            let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
            self.press(code).await;
        }
    }

    /// Returns the text of the screen, line by line.
    fn text(&self) -> String {
        let buffer = self.terminal.backend().buffer();
        let width = usize::from(buffer.area.width);
        let line = |cells: &[ratatui::buffer::Cell]| {
            cells.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned() + "\n"
        };
        buffer.content.chunks(width).map(line).collect()
    }

    /// Asserts that each of these texts is on the screen.
    #[track_caller]
    fn shows(&self, texts: &[&str]) {
        let screen = self.text();
        texts.iter().for_each(|text| assert!(screen.contains(text), "{text:?} is not on the screen:\n{screen}"));
    }

    fn note(&self) -> &str {
        self.model.note.as_ref().map_or("", |note| &note.text)
    }
}

#[tokio::test]
async fn every_screen_looks_as_it_was_approved() {
    let mut watcher = Watcher::start().await;
    insta::assert_snapshot!("queues", watcher.text());
    watcher.keys("j\n").await;
    insta::assert_snapshot!("tasks", watcher.text());
    watcher.select_tab(TaskState::Retry).await;
    insta::assert_snapshot!("tasks-retry", watcher.text());
    watcher.keys("\n").await;
    insta::assert_snapshot!("task", watcher.text());
    watcher.keys("2").await;
    insta::assert_snapshot!("servers", watcher.text());
    watcher.keys("3").await;
    insta::assert_snapshot!("periodic", watcher.text());
    watcher.keys("?").await;
    insta::assert_snapshot!("help", watcher.text());
}

#[tokio::test]
async fn the_picture_in_the_documentation_equals_the_view() {
    let watcher = Watcher::start().await;
    picture::check("dash.svg", &picture::svg(watcher.terminal.backend().buffer()));
}

#[tokio::test]
async fn a_narrow_or_tiny_terminal_is_drawn_too() {
    let mut watcher = Watcher::start().await;
    for (width, height) in [(80, 24), (60, 12)] {
        watcher.terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        watcher.keys("1gj").await;
        watcher.shows(&["critical ", "default ", "low "]);
        watcher.keys("\n").await;
        watcher.select_tab(TaskState::Pending).await;
        watcher.shows(&["pending-1 ", "send_email ", "{\"to\":"]);
        watcher.select_tab(TaskState::Retry).await;
        watcher.shows(&["retry ", "LAST ERROR", "421 try agai"]);
        watcher.select_tab(TaskState::Completed).await;
        watcher.shows(&["completed 1", "esc back", "page"]);
        watcher.keys("2").await;
        watcher.shows(&["mail-1:4", "critical=6", "active ", "{\"to\":"]);
        watcher.keys("3").await;
        watcher.shows(&["*/5 * * *", "cleanup ", " {}"]);
    }
    for (width, height) in [(20, 5), (3, 2), (1, 1)] {
        watcher.terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        for keys in ["1", "\n", "\n", "2", "3", "?", "q"] {
            watcher.keys(keys).await;
        }
    }
}

#[tokio::test]
async fn a_view_without_colours_marks_the_chosen_row_all_the_same() {
    use ratatui::style::{Color, Modifier};
    let mut watcher = Watcher::start().await;
    watcher.model.colours = false;
    watcher.keys("j").await;
    let buffer = watcher.terminal.backend().buffer();
    assert!(buffer.content.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)));
    let marked = |row: &str| {
        let cells = buffer.content.chunks(usize::from(buffer.area.width));
        let is_row = |cells: &&[ratatui::buffer::Cell]| {
            cells.iter().map(|cell| cell.symbol()).collect::<String>().contains(&format!("{row} "))
        };
        cells.filter(is_row).any(|cells| cells[cells.len() / 2].modifier.contains(Modifier::REVERSED))
    };
    assert!(marked("default") && !marked("critical"), "{}", watcher.text());
}

#[tokio::test]
async fn the_first_answer_of_an_opened_screen_is_shown_and_a_resize_loads_again() {
    let mut watcher = Watcher::start().await;
    // `follow` ends when no load is under way, so that an answer that is refused leaves the screen as it was.
    watcher.keys("j\n").await;
    watcher.shows(&["runs   9 tasks", "1-1 of 1"]);
    watcher.keys("\n").await;
    watcher.client.inspector().pause("default").await.unwrap();
    watcher.press(KeyCode::Esc).await;
    watcher.shows(&["paused   9 tasks"]);
    watcher.select_tab(TaskState::Pending).await;
    watcher.terminal.backend_mut().resize(120, 10);
    watcher.follow(Step::Stay).await;
    assert_eq!((watcher.model.room, watcher.model.screen().rows()), (1, 1));
    watcher.keys("n").await;
    watcher.shows(&["2-2 of 4", "pending-2 "]);
}

#[tokio::test]
async fn a_task_that_is_longer_than_the_screen_is_scrolled() {
    let mut watcher = Watcher::start().await;
    let payload = format!("[\"{}\",\"the end\"]", "long ".repeat(800));
    watcher.client.enqueue(asynq_runtime::RawTask::new("mail", payload).task_id("long").queue("only")).await.unwrap();
    watcher.follow(Step::Load).await;
    watcher.keys("G\n\n").await;
    watcher.shows(&["Task long of queue only", "Arguments"]);
    assert!(!watcher.text().contains("the end"), "{}", watcher.text());
    watcher.press(KeyCode::PageDown).await;
    assert!(!watcher.text().contains("Arguments"), "{}", watcher.text());
    watcher.press(KeyCode::End).await;
    watcher.keys("j").await;
    watcher.shows(&["the end"]);
    let at_the_end = watcher.model.screen().row;
    watcher.keys("k").await;
    assert_eq!(watcher.model.screen().row, at_the_end - 1, "a key at the end does not count");
    watcher.press(KeyCode::Home).await;
    watcher.shows(&["Arguments"]);
}

#[tokio::test]
async fn a_list_that_is_whole_moves_by_a_screen() {
    let mut watcher = Watcher::start().await;
    for n in 10..60 {
        let task = asynq_runtime::RawTask::new("mail", "{}").queue(format!("queue-{n}"));
        watcher.client.enqueue(task).await.unwrap();
    }
    watcher.follow(Step::Load).await;
    let room = watcher.model.room;
    assert!(watcher.model.screen().rows() > 2 * room);
    watcher.press(KeyCode::PageDown).await;
    watcher.keys("n").await;
    assert_eq!(watcher.model.screen().row, 2 * room);
    // The list shows `room` rows, so that no row is skipped. The first three queues have other names.
    watcher.shows(&[&format!("queue-{} ", 10 + room - 2), &format!("queue-{} ", 10 + 2 * room - 3)]);
    watcher.press(KeyCode::PageUp).await;
    watcher.keys("N").await;
    assert_eq!(watcher.model.screen().row, 0);
}

#[tokio::test]
async fn a_queue_is_paused_and_goes_on_by_one_key() {
    let mut watcher = Watcher::start().await;
    let name = QueueName::from_wire("default");
    let paused = async |watcher: &Watcher| watcher.client.inspector().queue(&name).await.unwrap().paused;
    watcher.keys("j").await;
    assert!(!paused(&watcher).await);
    watcher.keys("p").await;
    assert!(paused(&watcher).await);
    assert_eq!(watcher.note(), "queue default is paused");
    watcher.keys("h").await;
    watcher.shows(&["enter open"]);
    assert_eq!(watcher.note(), "");
    watcher.keys("p").await;
    assert!(!paused(&watcher).await);
}

#[tokio::test]
async fn a_change_is_told_while_it_is_under_way() {
    let mut watcher = Watcher::start().await;
    watcher.keys("3").await;
    let step = watcher.model.press(KeyEvent::from(KeyCode::Char('r')));
    assert!(matches!(step, Step::Act(_)), "{step:?}");
    assert_eq!(watcher.note(), "the change is under way …");
    watcher.follow(step).await;
    assert!(watcher.note().ends_with("is in queue low"), "{}", watcher.note());
}

#[tokio::test]
async fn a_task_is_run_archived_and_deleted_and_the_last_two_are_asked_about() {
    let mut watcher = Watcher::start().await;
    let inspector = watcher.client.inspector();
    let state = async |id: &str| inspector.task("default", id).await.map(|task| task.state).ok();
    watcher.keys("j\n").await;
    watcher.select_tab(TaskState::Retry).await;
    watcher.keys("r").await;
    assert_eq!(state("retry").await, Some(TaskState::Pending));
    watcher.keys("hhh\n").await;
    watcher.press(KeyCode::Esc).await;
    watcher.select_tab(TaskState::Scheduled).await;
    watcher.keys("a").await;
    assert!(matches!(&watcher.model.dialog, Some(Dialog::Sure(question, _)) if question.starts_with("Archive task")));
    assert!(watcher.text().contains("any other key: no"));
    watcher.keys("n").await;
    assert_eq!(state("scheduled").await, Some(TaskState::Scheduled), "no is no");
    watcher.keys("ay").await;
    assert_eq!(state("scheduled").await, Some(TaskState::Archived));
    watcher.select_tab(TaskState::Archived).await;
    // It never failed.
    watcher.shows(&["ARCHIVED", "just now"]);
    watcher.keys("\n").await;
    watcher.keys("dy").await;
    assert!(watcher.note().ends_with("is deleted"), "{}", watcher.note());
    assert!(watcher.text().contains("not there any more"));
}

#[tokio::test]
async fn a_run_that_cannot_be_undone_is_asked_about() {
    let mut watcher = Watcher::start().await;
    let grouped = asynq_runtime::RawTask::new("mail", "{}").task_id("grouped").group("news");
    watcher.client.enqueue(grouped).await.unwrap();
    watcher.keys("j\n").await;
    for (id, state, warning) in [
        ("done", TaskState::Completed, "The task has succeeded and would run a second time. Run task done of queue"),
        ("grouped", TaskState::Aggregating, "The task would run by itself and not with its group. Run task grouped of"),
    ] {
        let inspector = watcher.client.inspector();
        let is_now = async || inspector.task("default", id).await.unwrap().state;
        watcher.select_tab(state).await;
        watcher.keys("r").await;
        let Some(Dialog::Sure(question, _)) = &watcher.model.dialog else { panic!("{}", watcher.text()) };
        assert!(question.starts_with(warning), "{question}");
        watcher.keys("n").await;
        assert_eq!(is_now().await, state, "no is no");
        watcher.keys("ry").await;
        assert_eq!(is_now().await, TaskState::Pending);
    }
}

#[tokio::test]
async fn an_error_is_shown_and_the_last_answer_stays_on_the_screen() {
    let mut watcher = Watcher::start().await;
    watcher.client.broker().close().await;
    watcher.follow(Step::Load).await;
    assert!(watcher.model.note.as_ref().is_some_and(|note| note.is_error), "{}", watcher.note());
    assert!(watcher.text().contains("default"), "{}", watcher.text());
}

#[tokio::test]
async fn a_queue_that_is_deleted_meanwhile_leads_back_to_the_queues() {
    let mut watcher = Watcher::start().await;
    watcher.keys("jj\n").await;
    let Wanted::Tasks(listing) = &watcher.model.screen().wanted else { panic!("{:?}", watcher.model.screen()) };
    let queue = listing.queue.clone();
    watcher.client.inspector().delete_queue(&queue, asynq_runtime::inspector::Force::Yes).await.unwrap();
    watcher.follow(Step::Load).await;
    assert_eq!(watcher.model.wanted(), Wanted::Queues);
    assert_eq!(watcher.note(), format!("queue {queue} is gone"));
}

#[test]
fn keys_lead_in_and_out_again() {
    let mut model = Model::new("here".into(), true);
    let press = |model: &mut Model, code| model.press(KeyEvent::from(code));
    assert_eq!(press(&mut model, KeyCode::Char('2')), Step::Load);
    assert_eq!(model.wanted(), Wanted::Servers);
    assert_eq!(press(&mut model, KeyCode::Char('?')), Step::Stay);
    assert_eq!(model.dialog, Some(Dialog::Help));
    assert_eq!(press(&mut model, KeyCode::Char('q')), Step::Stay, "closes the list of keys alone");
    assert_eq!(press(&mut model, KeyCode::Esc), Step::Load);
    assert_eq!(model.wanted(), Wanted::Queues);
    assert_eq!(press(&mut model, KeyCode::Enter), Step::Stay, "nothing is there to be opened");
    assert_eq!(press(&mut model, KeyCode::Char('q')), Step::Quit);
    let ctrl = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
    assert_eq!((model.press(ctrl('c')), model.press(ctrl('l'))), (Step::Quit, Step::Redraw));
}
