//! Pages of tasks and of groups.

use std::future::IntoFuture;

use super::{InspectError, Inspector, queue_name};
use crate::{
    broker::{GroupPage, GroupStep, Page, TaskBrief},
    job::BoxFuture,
    task::{GroupName, QueueName, TaskInfo, TaskState},
};

impl Inspector {
    /// Lists the tasks of a queue in one state, a page at a time; `.await` it, or select the page first.
    ///
    /// Pending and active tasks come oldest first, the others by the second of their time, ascending. A message that cannot be
    /// read is left out, so a page may be shorter than its size.
    pub fn tasks(&self, queue: impl AsRef<str>, state: TaskState) -> ListTasks {
        ListTasks { inspector: self.clone(), queue: queue_name(queue), state, group: None, page: Page::default() }
    }

    /// Lists the groups of a queue that have waiting tasks, a page at a time; `.await` it, or select the page first.
    /// [`Groups::groups`](crate::broker::Groups::groups) describes the order.
    pub fn groups(&self, queue: impl AsRef<str>) -> ListGroups {
        ListGroups { inspector: self.clone(), queue: queue_name(queue), after: None, limit: ListGroups::LIMIT }
    }
}

/// A page of tasks, fetched by `.await`; [`Inspector::tasks`] makes it.
///
/// # Errors
///
/// `.await` fails if the page is not valid, the queue does not exist, or the broker failed.
#[must_use = "nothing is read until `.await`"]
#[derive(Debug, Clone)]
pub struct ListTasks {
    inspector: Inspector,
    queue: Result<QueueName, InspectError>,
    state: TaskState,
    group: Option<GroupName>,
    page: Page,
}

impl ListTasks {
    /// Most tasks of one page.
    pub const MOST: usize = 500;

    /// Selects the page, counted from 1; default 1.
    pub fn page(mut self, number: usize) -> Self {
        self.page.number = number;
        self
    }

    /// Sets the number of tasks per page, 1 to 500; default 30.
    pub fn per_page(mut self, size: usize) -> Self {
        self.page.size = size;
        self
    }

    /// Selects the tasks of one group; for [`TaskState::Aggregating`], which otherwise lists the tasks of all groups.
    pub fn group(mut self, group: impl AsRef<str>) -> Self {
        self.group = Some(GroupName::from_wire(group.as_ref()));
        self
    }

    /// Fetches the page with at most the first 4 KiB of each payload and result, for display.
    ///
    /// # Errors
    ///
    /// The errors of `.await`.
    pub async fn brief(self) -> Result<Vec<TaskBrief>, InspectError> {
        self.read(Some(TaskBrief::BYTES)).await
    }

    /// Fetches the page with at most `most` bytes of each payload and result; `None` for no limit.
    async fn read(self, most: Option<usize>) -> Result<Vec<TaskBrief>, InspectError> {
        let Self { inspector, queue, state, group, page } = self;
        let queue = queue?;
        let refuse = |what, reason: &str| Err(InspectError::Request { what, reason: reason.into() });
        if page.number == 0 {
            return refuse("page", "pages are counted from 1");
        }
        if !(1..=Self::MOST).contains(&page.size) {
            return refuse("per_page", "it must be 1 to 500");
        }
        if group.is_some() && state != TaskState::Aggregating {
            return refuse("group", "only aggregating tasks wait in groups; list the state `aggregating`");
        }
        let tasks = inspector.broker.list(&queue, state, group.as_ref(), page, most).await?;
        if tasks.is_empty() {
            inspector.known(&queue).await?;
        }
        Ok(tasks)
    }
}

impl IntoFuture for ListTasks {
    type Output = Result<Vec<TaskInfo>, InspectError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.read(None).await?.into_iter().map(|brief| brief.task).collect()) })
    }
}

/// A page of groups, fetched by `.await`; [`Inspector::groups`] makes it.
///
/// # Errors
///
/// `.await` fails if the limit is not valid, the queue does not exist, or the broker failed.
#[must_use = "nothing is read until `.await`"]
#[derive(Debug, Clone)]
pub struct ListGroups {
    inspector: Inspector,
    queue: Result<QueueName, InspectError>,
    after: Option<GroupStep>,
    limit: usize,
}

impl ListGroups {
    /// The default number of groups per page, which is also the largest.
    pub const LIMIT: usize = 500;

    /// Selects the page after another one: `step` is [`GroupPage::next`] of that page.
    pub fn after(mut self, step: GroupStep) -> Self {
        self.after = Some(step);
        self
    }

    /// Sets the largest number of groups per page, 1 to 500; default 500.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    async fn fetch(self) -> Result<GroupPage, InspectError> {
        let Self { inspector, queue, after, limit } = self;
        let queue = queue?;
        if !(1..=Self::LIMIT).contains(&limit) {
            return Err(InspectError::Request { what: "limit", reason: "it must be 1 to 500".into() });
        }
        let page = inspector.broker.groups(&queue, after.as_ref(), limit).await?;
        if page.groups.is_empty() {
            inspector.known(&queue).await?;
        }
        Ok(page)
    }
}

impl IntoFuture for ListGroups {
    type Output = Result<GroupPage, InspectError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.fetch())
    }
}
