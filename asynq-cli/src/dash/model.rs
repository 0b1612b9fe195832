//! The state of the view, and the effect of each key on it.

use asynq_runtime::{
    TaskState,
    broker::BulkAction,
    inspector::{ArchiveRoom, InspectError},
    task::{QueueName, SchedulerEntry, TaskId},
};
use chrono::{DateTime, Utc};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{
    load::{Content, Listing, Loaded, Wanted},
    screen::Screen,
};
use crate::{
    error::CliError,
    show::{number, tasks},
};

/// The states in the order of their tabs.
pub(crate) const TABS: [TaskState; 7] = [
    TaskState::Active,
    TaskState::Pending,
    TaskState::Aggregating,
    TaskState::Scheduled,
    TaskState::Retry,
    TaskState::Archived,
    TaskState::Completed,
];

/// The state of the view.
#[derive(Debug)]
pub(crate) struct Model {
    /// The broker, for people.
    pub(crate) broker: String,
    /// Whether the view has colours.
    pub(crate) colours: bool,
    /// The open screens, from the first to the one that is shown.
    screens: Vec<Screen>,
    pub(crate) dialog: Option<Dialog>,
    pub(crate) note: Option<Note>,
    /// The broker's time when it last answered.
    pub(crate) now: Option<DateTime<Utc>>,
    /// The archive of the queue on the screen.
    archive: Option<ArchiveRoom>,
    /// Rows of a list that fit on the screen; the view sets this number.
    pub(crate) room: usize,
}

/// Something in front of the screen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Dialog {
    Help,
    /// A question that `y` answers with yes.
    Sure(String, Act),
}

/// A line at the bottom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) text: String,
    pub(crate) is_error: bool,
    /// Whether the note says that the broker did not answer: such a note is removed when the broker answers.
    is_of_loading: bool,
}

/// The reaction to a key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Stay,
    Load,
    Redraw,
    Act(Act),
    Quit,
}

/// A change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// Pauses a queue if `true`, resumes it if `false`.
    PauseQueue(QueueName, bool),
    /// Pauses an entry if `true`, resumes it if `false`.
    PauseEntry(Box<SchedulerEntry>, bool),
    RunEntry(Box<SchedulerEntry>),
    Task(TaskAct, TheTask),
}

/// A task as it was seen: a task whose state has changed meanwhile is not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TheTask {
    pub(crate) queue: QueueName,
    pub(crate) id: TaskId,
    pub(crate) state: TaskState,
}

/// A change of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskAct {
    Change(BulkAction),
    Cancel,
}

impl Model {
    pub(crate) fn new(broker: String, colours: bool) -> Self {
        let first = Screen::of(Wanted::Queues);
        Self { broker, colours, screens: vec![first], dialog: None, note: None, now: None, archive: None, room: 20 }
    }

    /// Returns the screen that is shown.
    pub(crate) fn screen(&self) -> &Screen {
        // There is always a screen: the first is never closed.
        &self.screens[self.screens.len() - 1]
    }

    pub(crate) fn screen_mut(&mut self) -> &mut Screen {
        let last = self.screens.len() - 1;
        &mut self.screens[last]
    }

    /// Returns the content that has to be loaded for the screen.
    pub(crate) fn wanted(&self) -> Wanted {
        match &self.screen().wanted {
            Wanted::Tasks(listing) => Wanted::Tasks(Listing { size: self.room.max(1), ..listing.clone() }),
            other => other.clone(),
        }
    }

    /// Shows an answer of the broker, if the screen still asks for it.
    pub(crate) fn show(&mut self, loaded: Result<Loaded, InspectError>) -> Step {
        match loaded {
            Ok(Loaded { wanted, now, archive, content }) => {
                self.now = Some(now);
                if self.note.as_ref().is_some_and(|note| note.is_of_loading) {
                    self.note = None;
                }
                if wanted == self.wanted() {
                    self.archive = archive;
                    // The terminal has grown, or the tasks of the page are gone.
                    if let (Wanted::Tasks(listing), Content::Tasks { stats, tasks, .. }) = (wanted, &content)
                        && tasks.is_empty()
                    {
                        let count = usize::try_from(stats.count(listing.state)).unwrap_or(usize::MAX);
                        let last = count.div_ceil(listing.size).max(1);
                        if listing.page > last {
                            self.screen_mut().wanted = Wanted::Tasks(Listing { page: last, ..listing });
                            return Step::Load;
                        }
                    }
                    self.screen_mut().show(content);
                }
            }
            Err(InspectError::QueueNotFound { queue }) => {
                self.screens.truncate(1);
                self.note =
                    Some(Note { text: format!("queue {queue} is gone"), is_error: false, is_of_loading: false });
                return Step::Load;
            }
            // The result of a change stays until the next key: a load that fails is tried again, and tells its error then.
            Err(error) if self.note.as_ref().is_none_or(|note| note.is_of_loading) => {
                self.note = Some(Note { text: error.to_string(), is_error: true, is_of_loading: true });
            }
            Err(_) => {}
        }
        Step::Stay
    }

    /// Shows the result of a change, and loads the screen again.
    pub(crate) fn show_result(&mut self, done: Result<String, CliError>) -> Step {
        let is_error = done.is_err();
        let text = done.unwrap_or_else(|error| error.line());
        self.note = Some(Note { text, is_error, is_of_loading: false });
        Step::Load
    }

    pub(crate) fn press(&mut self, key: KeyEvent) -> Step {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Step::Quit,
                KeyCode::Char('l') => Step::Redraw,
                _ => Step::Stay,
            };
        }
        // The result of the last change stands in the place of the keys until the next key.
        if self.note.as_ref().is_some_and(|note| !note.is_of_loading) {
            self.note = None;
        }
        let step = match self.dialog.take() {
            Some(Dialog::Sure(_, act)) if key.code == KeyCode::Char('y') => Step::Act(act),
            // Any other key says no.
            Some(Dialog::Sure(..) | Dialog::Help) => Step::Stay,
            None => self.on_key(key.code),
        };
        // A key that shows nothing is pressed again, and an entry that is run twice has two tasks.
        if let Step::Act(_) = step {
            let text = "the change is under way …".to_owned();
            self.note = Some(Note { text, is_error: false, is_of_loading: false });
        }
        step
    }

    fn on_key(&mut self, key: KeyCode) -> Step {
        match key {
            KeyCode::Char('?') => self.ask(Dialog::Help),
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Char('q') => self.back(),
            KeyCode::Char('1') => self.go_to(Wanted::Queues),
            KeyCode::Char('2') => self.go_to(Wanted::Servers),
            KeyCode::Char('3') => self.go_to(Wanted::Periodic),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::Home | KeyCode::Char('g') => self.move_by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.move_by(isize::MAX),
            KeyCode::Left | KeyCode::Char('h') | KeyCode::BackTab => self.turn_tab(TABS.len() - 1),
            KeyCode::Right | KeyCode::Char('l') | KeyCode::Tab => self.turn_tab(1),
            KeyCode::Char('n') | KeyCode::PageDown => self.turn_page(true),
            KeyCode::Char('N') | KeyCode::PageUp => self.turn_page(false),
            // These two keys can act at once on the chosen row, which the last load may have removed. All others only read, or name
            // their task in a question.
            KeyCode::Char('p' | 'r') if self.acts_on_a_row(key) && self.screen_mut().take_gone() => {
                let text = "the chosen entry is gone from here: look again".to_owned();
                self.note = Some(Note { text, is_error: false, is_of_loading: false });
                Step::Stay
            }
            KeyCode::Enter => self.open(),
            KeyCode::Char('p') => self.pause(),
            KeyCode::Char('r') => self.run(),
            KeyCode::Char('a') => self.on_task(TaskAct::Change(BulkAction::Archive)),
            KeyCode::Char('d') => self.on_task(TaskAct::Change(BulkAction::Delete)),
            KeyCode::Char('c') => self.on_task(TaskAct::Cancel),
            _ => Step::Stay,
        }
    }

    /// Whether a key acts on the chosen row at once; `p` on a list of tasks is about their queue.
    fn acts_on_a_row(&self, key: KeyCode) -> bool {
        key != KeyCode::Char('p') || !matches!(self.screen().content, Some(Content::Tasks { .. }))
    }

    fn ask(&mut self, dialog: Dialog) -> Step {
        self.dialog = Some(dialog);
        Step::Stay
    }

    fn back(&mut self) -> Step {
        if self.screens.len() == 1 {
            return Step::Quit;
        }
        self.screens.pop();
        Step::Load
    }

    fn go_to(&mut self, wanted: Wanted) -> Step {
        self.screens.truncate(1);
        if wanted != Wanted::Queues {
            self.screens.push(Screen::of(wanted));
        }
        Step::Load
    }

    fn move_by(&mut self, by: isize) -> Step {
        self.screen_mut().move_by(by);
        Step::Stay
    }

    fn turn_tab(&mut self, by: usize) -> Step {
        let screen = self.screen_mut();
        let Wanted::Tasks(listing) = &mut screen.wanted else { return Step::Stay };
        let tab = TABS.iter().position(|&tab| tab == listing.state).unwrap_or(0);
        (listing.state, listing.page) = (TABS[(tab + by) % TABS.len()], 1);
        screen.start_over();
        Step::Load
    }

    fn turn_page(&mut self, forward: bool) -> Step {
        let room = self.room.max(1);
        let screen = self.screen_mut();
        // Only the tasks of a queue come in pages: any other list is whole, and moves by a screen as a task does.
        if !matches!(screen.wanted, Wanted::Tasks(_)) {
            let lines = isize::try_from(room).unwrap_or(isize::MAX);
            return self.move_by(if forward { lines } else { -lines });
        }
        let (Wanted::Tasks(listing), Some(Content::Tasks { stats, .. })) = (&mut screen.wanted, &screen.content) else {
            return Step::Stay;
        };
        // A page is shorter where tasks cannot be read: the number of tasks says whether more come.
        let has_more = stats.count(listing.state) > listing.page.saturating_mul(room) as u64;
        match forward {
            true if has_more => listing.page += 1,
            false if listing.page > 1 => listing.page -= 1,
            _ => return Step::Stay,
        }
        screen.start_over();
        Step::Load
    }

    fn open(&mut self) -> Step {
        let screen = self.screen();
        let wanted = match &screen.content {
            Some(Content::Queues(queues, _)) => queues.get(screen.row).map(|queue| {
                let state = TABS.into_iter().find(|&state| queue.count(state) > 0).unwrap_or(TaskState::Pending);
                Wanted::Tasks(Listing { queue: queue.name.clone(), state, page: 1, size: self.room })
            }),
            Some(Content::Tasks { tasks, .. }) => {
                tasks.get(screen.row).map(|task| Wanted::Task(task.queue.clone(), task.id.clone()))
            }
            _ => None,
        };
        let Some(wanted) = wanted else { return Step::Stay };
        self.screens.push(Screen::of(wanted));
        Step::Load
    }

    fn pause(&mut self) -> Step {
        let screen = self.screen();
        let queue = match &screen.content {
            Some(Content::Queues(queues, _)) => queues.get(screen.row),
            Some(Content::Tasks { stats, .. }) => Some(&**stats),
            Some(Content::Periodic(entries, _)) => {
                let Some(entry) = entries.get(screen.row) else { return Step::Stay };
                return Step::Act(Act::PauseEntry(Box::new(entry.listed.clone()), !entry.paused));
            }
            _ => None,
        };
        match queue {
            Some(queue) => Step::Act(Act::PauseQueue(queue.name.clone(), !queue.paused)),
            None => Step::Stay,
        }
    }

    fn run(&mut self) -> Step {
        let screen = self.screen();
        match &screen.content {
            Some(Content::Periodic(entries, _)) => match entries.get(screen.row) {
                Some(entry) => Step::Act(Act::RunEntry(Box::new(entry.listed.clone()))),
                None => Step::Stay,
            },
            _ => self.on_task(TaskAct::Change(BulkAction::Run)),
        }
    }

    /// Returns a warning that archiving one more task deletes the oldest, if the archive is full.
    fn beyond_archive(&self) -> String {
        match self.archive {
            Some(room) if room.beyond(1) > 0 => {
                let (keeps, holds) = (tasks(room.limit), number(room.archived));
                format!("The archive keeps {keeps} and holds {holds}: the oldest will be DELETED. ")
            }
            _ => String::new(),
        }
    }

    fn on_task(&mut self, act: TaskAct) -> Step {
        let screen = self.screen();
        let chosen = match &screen.content {
            Some(Content::Tasks { tasks, .. }) => tasks.get(screen.row),
            Some(Content::Task(Some(task))) => Some(&task.0),
            _ => None,
        };
        let Some(task) = chosen else { return Step::Stay };
        let task = TheTask { queue: task.queue.clone(), id: task.id.clone(), state: task.state };
        // The warning comes first: names may be longer than the screen.
        let (verb, warning) = match act {
            TaskAct::Change(BulkAction::Run) => match task.state {
                TaskState::Completed => ("Run", "The task has succeeded and would run a second time. ".to_owned()),
                TaskState::Aggregating => ("Run", "The task would run by itself and not with its group. ".to_owned()),
                _ => return Step::Act(Act::Task(act, task)),
            },
            TaskAct::Change(BulkAction::Archive) => ("Archive", self.beyond_archive()),
            TaskAct::Change(BulkAction::Delete) => ("Delete", String::new()),
            TaskAct::Cancel => ("Cancel the run of", String::new()),
        };
        self.ask(Dialog::Sure(
            format!("{warning}{verb} task {} of queue {}?", task.id, task.queue),
            Act::Task(act, task),
        ))
    }
}
