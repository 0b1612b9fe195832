//! One screen: its content, and which of its rows is chosen.

use asynq_cron::Schedule;

use super::load::{Content, Wanted};

/// One screen with its content.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) wanted: Wanted,
    pub(crate) content: Option<Content>,
    /// The row that is chosen; of a task, the first line on the screen.
    pub(crate) row: usize,
    /// The name of what stands in that row.
    chosen: Option<String>,
    is_gone: bool,
    /// Lines of a task that the screen has no room for; the view sets this number.
    pub(crate) beyond: usize,
}

impl Screen {
    pub(crate) fn of(wanted: Wanted) -> Self {
        Self { wanted, content: None, row: 0, chosen: None, is_gone: false, beyond: 0 }
    }

    /// Shows newer content. The choice follows what was chosen: rows before it come and go.
    pub(crate) fn show(&mut self, content: Content) {
        self.content = Some(content);
        if let Some(chosen) = self.chosen.take() {
            match (0..self.rows()).find(|&row| self.name(row).is_some_and(|name| name == chosen)) {
                Some(row) => self.row = row,
                None => self.is_gone = true,
            }
        }
        self.row = self.row.min(self.rows().saturating_sub(1));
        self.chosen = self.name(self.row);
    }

    /// Chooses another row.
    pub(crate) fn move_by(&mut self, by: isize) {
        self.row = self.row.saturating_add_signed(by).min(self.rows().saturating_sub(1));
        self.chosen = self.name(self.row);
        self.is_gone = false;
    }

    /// Forgets the content, which is that of another list, and chooses the first row of the one that comes next.
    pub(crate) fn start_over(&mut self) {
        (self.content, self.row, self.chosen, self.is_gone) = (None, 0, None, false);
    }

    /// Whether what was chosen is gone, and another row stands in its place; says so once.
    pub(crate) fn take_gone(&mut self) -> bool {
        std::mem::take(&mut self.is_gone)
    }

    /// Returns the number of rows that can be chosen, or of lines to which a task can be scrolled.
    pub(crate) fn rows(&self) -> usize {
        match &self.content {
            Some(Content::Queues(queues, _)) => queues.len(),
            Some(Content::Tasks { tasks, .. }) => tasks.len(),
            Some(Content::Servers(servers, _)) => servers.len(),
            Some(Content::Periodic(entries, _)) => entries.len(),
            Some(Content::Task(_)) => self.beyond + 1,
            None => 0,
        }
    }

    /// Returns what stands in a row, by a name that no other row of the screen has.
    fn name(&self, row: usize) -> Option<String> {
        Some(match self.content.as_ref()? {
            Content::Queues(queues, _) => queues.get(row)?.name.to_string(),
            Content::Tasks { tasks, .. } => tasks.get(row)?.id.to_string(),
            Content::Servers(servers, _) => servers.get(row)?.info.server_id.clone(),
            Content::Periodic(entries, _) => {
                let listed = &entries.get(row)?.listed;
                format!("{} in {}", listed.id, Schedule::queue_of(listed))
            }
            Content::Task(_) => return None,
        })
    }
}
