//! The election of one scheduler per program: a lease that saves work. Two leaders at once fire no tick twice.
//!
//! [`Campaign`] decides; the scheduler's own loop sends its requests. A loop that is held up therefore renews nothing, and loses
//! the lead to a scheduler that works.

use std::time::{Duration, Instant};

use asynq_runtime::broker::{BrokerError, Candidate, Lead};

/// Safety margin: a leader stops this long before the broker's lease expires.
const MARGIN: Duration = Duration::from_secs(1);
/// The shortest lease; the margin would leave too little of a shorter one.
pub(crate) const SHORTEST_TTL: Duration = Duration::from_secs(3);
/// The pause after a failure; the broker has its own deadlines.
const PAUSE: Duration = Duration::from_millis(250);

/// Whether this scheduler leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leadership {
    /// Another scheduler leads, or none does.
    Follows,
    /// This scheduler leads.
    Leads {
        /// When the lead must be assumed lost; `None` without an election.
        until: Option<Instant>,
    },
}

impl Leadership {
    /// Whether this scheduler leads at `now`.
    pub(crate) fn leads(&self, now: Instant) -> bool {
        match self {
            Self::Follows => false,
            Self::Leads { until } => until.is_none_or(|until| now < until),
        }
    }

    /// How long this scheduler still leads; `None` for a follower, and without an election.
    pub(crate) fn remaining(&self, now: Instant) -> Option<Duration> {
        match self {
            Self::Leads { until: Some(until) } => Some(until.saturating_duration_since(now)),
            _ => None,
        }
    }
}

/// A request to the broker; one is under way at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    /// `Schedules::lead`.
    Lead,
    /// `Schedules::resign`.
    Resign,
    /// `Schedules::wait_for_lead`, for at most this time.
    WaitUntilFree(Duration),
}

/// The answer to a [`Request`].
#[derive(Debug)]
pub(crate) enum Answer {
    /// The answer to [`Request::Lead`], which was sent at this time.
    Lead(Instant, Result<Lead, BrokerError>),
    /// The answer to [`Request::Resign`].
    Resigned(Result<(), BrokerError>),
    /// The answer to [`Request::WaitUntilFree`].
    MayBeFree(Result<(), BrokerError>),
}

/// One scheduler's candidacy: decides when to ask for the lead, and reads the answers.
#[derive(Debug)]
pub(crate) struct Campaign {
    pub(crate) candidate: Candidate,
    pub(crate) ttl: Duration,
    leadership: Leadership,
    /// The next request and when it is due; `None` while one is under way, and for ever without an election.
    next: Option<(Instant, Request)>,
    /// Whether a request has been sent.
    has_asked: bool,
    /// Whether the broker may know this scheduler as the leader although its answer did not come.
    is_in_doubt: bool,
    /// A random delay, so that several candidates that wake together ask one after another.
    spread: Duration,
}

impl Campaign {
    /// Makes a candidate that asks after `delay` at the latest, or one that leads for ever if there is no election.
    pub(crate) fn new(candidate: Candidate, ttl: Duration, election: bool, delay: Duration) -> Self {
        let spread = Duration::from_millis(fastrand::u64(50..250));
        let leadership = if election { Leadership::Follows } else { Leadership::Leads { until: None } };
        let next = election.then(|| (Instant::now() + delay, Request::Lead));
        Self { candidate, ttl, leadership, next, has_asked: false, is_in_doubt: false, spread }
    }

    /// Makes the first request due now, unless it has been sent.
    pub(crate) fn begin(&mut self, now: Instant) {
        if let Some((at, _)) = self.next.as_mut().filter(|_| !self.has_asked) {
            *at = now;
        }
    }

    /// Changes the revision with which this scheduler asks for the lead. One that leads, or may, keeps its own, by which the broker knows it.
    pub(crate) fn set_revision(&mut self, revision: u64) {
        if !self.is_in_doubt && self.leadership == Leadership::Follows && matches!(self.next, Some((_, Request::Lead)))
        {
            self.candidate.revision = revision;
        }
    }

    /// Returns whether this scheduler leads, and for how long.
    pub(crate) fn leadership(&self) -> Leadership {
        self.leadership
    }

    /// Returns the request that is due. Its answer must be given to [`answered`](Self::answered).
    pub(crate) fn due(&mut self, now: Instant) -> Option<Request> {
        let (_, request) = self.next.take_if(|(at, _)| *at <= now)?;
        self.has_asked = true;
        Some(request)
    }

    /// Returns when the next request is due; `None` while one is under way.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.next.as_ref().map(|(at, _)| *at)
    }

    /// Takes the answer to the last due request.
    pub(crate) fn answered(&mut self, answer: Answer, now: Instant) {
        self.is_in_doubt = match &answer {
            Answer::Lead(_, lead) => lead.is_err(),
            Answer::Resigned(resigned) => resigned.is_err(),
            Answer::MayBeFree(_) => self.is_in_doubt,
        };
        self.next = Some(match answer {
            Answer::Lead(sent_at, Ok(Lead::Ours { wanted: false })) => {
                self.leadership = Leadership::Leads { until: Some(sent_at + (self.ttl - MARGIN.min(self.ttl))) };
                (now + self.ttl / 3, Request::Lead)
            }
            Answer::Lead(_, Ok(Lead::Ours { wanted: true })) => {
                self.leadership = Leadership::Follows;
                log!(info, "a newer program takes the schedule over");
                (now, Request::Resign)
            }
            Answer::Lead(_, Ok(Lead::Another(left))) => {
                self.leadership = Leadership::Follows;
                // Another scheduler's longer lease, or an absurd one, is asked for again in time.
                (now, Request::WaitUntilFree(left.min(self.ttl) + self.spread))
            }
            // The last answer counts until its time is over.
            Answer::Lead(_, Err(_)) => (now + PAUSE, Request::Lead),
            Answer::Resigned(resigned) => {
                if let Err(error) = resigned {
                    log!(debug, "the lead was not released; it expires by itself: {error}");
                }
                // The newer program asks as soon as the lead is free.
                (now + self.ttl / 3, Request::Lead)
            }
            Answer::MayBeFree(Ok(())) => (now + self.spread / 4, Request::Lead),
            Answer::MayBeFree(Err(error)) => {
                log!(debug, "cannot wait for the lead: {error}");
                (now + PAUSE, Request::Lead)
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lead_counts_from_before_the_request_and_ends_before_the_lease() {
        let (sent_at, ttl) = (Instant::now(), Duration::from_secs(10));
        let candidate = Candidate { program: "p".into(), token: "t".into(), revision: 1 };
        let mut campaign = Campaign::new(candidate, ttl, true, Duration::ZERO);
        let (now, until) = (sent_at + Duration::from_secs(1), sent_at + Duration::from_secs(9));
        campaign.answered(Answer::Lead(sent_at, Ok(Lead::Ours { wanted: false })), now);
        let leadership = campaign.leadership();
        assert_eq!((leadership, campaign.next_at()), (Leadership::Leads { until: Some(until) }, Some(now + ttl / 3)));
        assert!(leadership.leads(sent_at + Duration::from_millis(8_999)));
        assert!(!leadership.leads(until));
        assert_eq!(leadership.remaining(sent_at), Some(Duration::from_secs(9)));
        assert_eq!(leadership.remaining(sent_at + ttl), Some(Duration::ZERO));
    }

    #[test]
    fn one_request_is_under_way_at_a_time_and_each_answer_sets_the_time_of_the_next() {
        let (start, ttl) = (Instant::now(), Duration::from_secs(9));
        let candidate = Candidate { program: "p".into(), token: "t".into(), revision: 1 };
        let mut campaign = Campaign::new(candidate.clone(), ttl, true, Duration::ZERO);
        let start = start.max(campaign.next_at().expect("asks at once"));
        assert_eq!(campaign.due(start), Some(Request::Lead));
        assert_eq!((campaign.due(start + ttl), campaign.next_at()), (None, None), "one at a time");

        campaign.answered(Answer::Lead(start, Ok(Lead::Another(Duration::from_secs(900)))), start);
        assert_eq!(campaign.due(start), Some(Request::WaitUntilFree(ttl + campaign.spread)));
        campaign.answered(Answer::Lead(start, Ok(Lead::Another(Duration::from_secs(2)))), start);
        assert_eq!(campaign.due(start), Some(Request::WaitUntilFree(Duration::from_secs(2) + campaign.spread)));
        campaign.answered(Answer::MayBeFree(Ok(())), start);
        let at = start + campaign.spread / 4;
        assert_eq!(campaign.next_at(), Some(at));
        assert_eq!(campaign.due(at), Some(Request::Lead));
        campaign.answered(Answer::Lead(at, Ok(Lead::Ours { wanted: false })), at);
        assert!(campaign.leadership().leads(at + ttl - MARGIN - Duration::from_millis(1)));
        assert_eq!((campaign.due(at + ttl / 4), campaign.due(at + ttl / 3)), (None, Some(Request::Lead)));

        // A newer program wants the lead.
        campaign.answered(Answer::Lead(at, Ok(Lead::Ours { wanted: true })), at);
        assert_eq!((campaign.leadership(), campaign.due(at)), (Leadership::Follows, Some(Request::Resign)));
        campaign.answered(Answer::Resigned(Ok(())), at);
        assert_eq!((campaign.due(at), campaign.next_at()), (None, Some(at + ttl / 3)));

        let mut alone = Campaign::new(candidate, ttl, false, Duration::ZERO);
        assert_eq!((alone.due(start + ttl), alone.leadership()), (None, Leadership::Leads { until: None }));
        let alone = alone.leadership();
        assert!(alone.leads(start + Duration::from_secs(1 << 20)) && alone.remaining(start).is_none());
        assert!(!Leadership::Follows.leads(start));
    }

    #[test]
    fn the_first_request_can_be_hastened_and_a_revision_changes_only_between_leads() {
        let (start, ttl) = (Instant::now(), Duration::from_secs(9));
        let candidate = Candidate { program: "p".into(), token: "t".into(), revision: 1 };
        let mut campaign = Campaign::new(candidate, ttl, true, ttl / 3);
        let at = start + ttl / 6;
        assert_eq!(campaign.due(at), None);
        campaign.begin(at);
        campaign.set_revision(0);
        assert_eq!((campaign.due(at), campaign.candidate.revision), (Some(Request::Lead), 0));
        campaign.set_revision(2);
        assert_eq!(campaign.candidate.revision, 0, "it has been asked with this one");

        let error = || BrokerError::new(asynq_runtime::broker::BrokerErrorKind::Unavailable, "away");
        campaign.answered(Answer::Lead(at, Err(error())), at);
        campaign.set_revision(2);
        assert_eq!(
            (campaign.candidate.revision, campaign.due(at + PAUSE)),
            (0, Some(Request::Lead)),
            "it may lead with this one"
        );
        campaign.answered(Answer::Lead(at, Ok(Lead::Ours { wanted: false })), at);
        campaign.set_revision(2);
        campaign.begin(at);
        assert_eq!((campaign.candidate.revision, campaign.due(at)), (0, None), "it leads with this one");

        campaign.answered(Answer::Lead(at, Ok(Lead::Ours { wanted: true })), at);
        campaign.set_revision(2);
        assert_eq!((campaign.due(at), campaign.candidate.revision), (Some(Request::Resign), 0), "and resigns with it");
        campaign.answered(Answer::Resigned(Err(error())), at);
        campaign.set_revision(2);
        assert_eq!(campaign.candidate.revision, 0, "it may still lead with this one");
        campaign.answered(Answer::Resigned(Ok(())), at);
        campaign.set_revision(2);
        assert_eq!((campaign.due(at + ttl / 3), campaign.candidate.revision), (Some(Request::Lead), 2));
    }

    #[test]
    fn an_unavailable_broker_is_asked_again_and_a_lead_that_is_not_renewed_ends() {
        let (now, ttl) = (Instant::now(), Duration::from_secs(9));
        let candidate = Candidate { program: "p".into(), token: "t".into(), revision: 1 };
        let mut campaign = Campaign::new(candidate, ttl, true, Duration::ZERO);
        campaign.answered(Answer::Lead(now, Ok(Lead::Ours { wanted: false })), now);
        // The loop was held up for longer than the lease: it leads no more, whatever the broker answers later.
        assert!(!campaign.leadership().leads(now + ttl));
        let error = || BrokerError::new(asynq_runtime::broker::BrokerErrorKind::Unavailable, "away");
        for answer in [Answer::Lead(now, Err(error())), Answer::MayBeFree(Err(error()))] {
            campaign.answered(answer, now);
            assert_eq!((campaign.next_at(), campaign.due(now + PAUSE)), (Some(now + PAUSE), Some(Request::Lead)));
            assert!(campaign.leadership().leads(now + PAUSE), "what is known holds until its time is over");
        }
    }
}
