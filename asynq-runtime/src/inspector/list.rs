//! Pages of tasks and of groups.

use std::future::IntoFuture;

use super::{InspectError, Inspector, queue_name};
use crate::{
    broker::{GroupPage, GroupStep, Page, TaskBrief},
    job::BoxFuture,
    task::{GroupName, QueueName, TaskInfo, TaskState},
};

impl Inspector {
    /// The tasks of a queue in one state, a page at a time; `.await` it, or say first which page.
    ///
    /// Pending and active tasks come oldest first, the others by the second of their time, ascending. A message that cannot
    /// be read is left out, so that a page may be shorter than asked for.
    pub fn tasks(&self, queue: impl AsRef<str>, state: TaskState) -> ListTasks {
        ListTasks { inspector: self.clone(), queue: queue_name(queue), state, group: None, page: Page::default() }
    }

    /// A page of the groups of a queue that have waiting tasks ([`Groups::groups`](crate::broker::Groups::groups) says in which order);
    /// `.await` it, or say first which.
    pub fn groups(&self, queue: impl AsRef<str>) -> ListGroups {
        ListGroups { inspector: self.clone(), queue: queue_name(queue), after: None, limit: ListGroups::LIMIT }
    }
}

/// A page of tasks that is fetched by `.await`; [`Inspector::tasks`] makes it.
///
/// # Errors
///
/// Of `.await`: a page that cannot be, no such queue, or the broker failed.
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

    /// Which page, counted from 1; default 1.
    pub fn page(mut self, number: usize) -> Self {
        self.page.number = number;
        self
    }

    /// Tasks per page, 1 to 500; default 30.
    pub fn per_page(mut self, size: usize) -> Self {
        self.page.size = size;
        self
    }

    /// Only the tasks of one group; for [`TaskState::Aggregating`], which otherwise lists those of all groups.
    pub fn group(mut self, group: impl AsRef<str>) -> Self {
        self.group = Some(GroupName::from_wire(group.as_ref()));
        self
    }

    /// The page with at most the first 4 KiB of each payload and result: for showing it, whatever the tasks carry.
    ///
    /// # Errors
    ///
    /// As those of `.await`.
    pub async fn brief(self) -> Result<Vec<TaskBrief>, InspectError> {
        let (inspector, queue, state, group, page) = self.checked()?;
        let tasks = inspector.broker.briefs(&queue, state, group.as_ref(), page).await?;
        if tasks.is_empty() {
            inspector.known(&queue).await?;
        }
        Ok(tasks)
    }

    async fn fetch(self) -> Result<Vec<TaskInfo>, InspectError> {
        let (inspector, queue, state, group, page) = self.checked()?;
        let tasks = match group {
            Some(group) => inspector.broker.group_tasks(&queue, &group, page).await?,
            None => inspector.broker.tasks(&queue, state, page).await?,
        };
        if tasks.is_empty() {
            inspector.known(&queue).await?;
        }
        Ok(tasks)
    }

    /// What is to be read, if it can be.
    fn checked(self) -> Result<(Inspector, QueueName, TaskState, Option<GroupName>, Page), InspectError> {
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
            return refuse("group", "only aggregating tasks wait in groups; list TaskState::Aggregating");
        }
        Ok((inspector, queue, state, group, page))
    }
}

impl IntoFuture for ListTasks {
    type Output = Result<Vec<TaskInfo>, InspectError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.fetch())
    }
}

/// Groups that are fetched by `.await`; [`Inspector::groups`] makes it.
///
/// # Errors
///
/// Of `.await`: a limit that cannot be, no such queue, or the broker failed.
#[must_use = "nothing is read until `.await`"]
#[derive(Debug, Clone)]
pub struct ListGroups {
    inspector: Inspector,
    queue: Result<QueueName, InspectError>,
    after: Option<GroupStep>,
    limit: usize,
}

impl ListGroups {
    /// How many groups are fetched at a time unless fewer are asked for; also the most.
    pub const LIMIT: usize = 500;

    /// The page that begins where another ended: [`GroupPage::next`] of that page.
    pub fn after(mut self, step: GroupStep) -> Self {
        self.after = Some(step);
        self
    }

    /// At most so many, 1 to 500; default 500.
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
