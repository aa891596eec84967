//! The pop-up that asks before an action.

use api::types::JobState;
use notation::duration;
use ratatui::crossterm::event::KeyCode;

use super::action::Action;
use super::number;

/// A question to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prompt {
    pub(super) subject: Subject,
    /// What the user has typed.
    pub(super) text: String,
    /// Why the text is wrong.
    pub(super) mistake: Option<String>,
}

/// What the question is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Pause {
        queue: String,
    },
    Resume {
        queue: String,
    },
    Kick {
        queue: String,
        state: JobState,
    },
    /// The counts are those of ready, delayed and buried jobs.
    Clear {
        queue: String,
        state: Option<JobState>,
        counts: [u64; 3],
    },
    KickJob {
        id: u64,
    },
    DeleteJob {
        id: u64,
        is_leased: bool,
    },
    Close {
        connection: String,
        address: String,
        holds: u64,
    },
    Cancel {
        operation: u64,
    },
}

/// What a key does to the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The question stays.
    Open,
    /// The user does not want it.
    Closed,
    /// The user wants this.
    Do(Action),
}

impl Prompt {
    /// Asks about this.
    pub(super) fn new(subject: Subject) -> Prompt {
        let text = match subject {
            Subject::Pause { .. } => "10m",
            _ => "",
        };
        Prompt { subject, text: text.to_owned(), mistake: None }
    }

    /// The title of the pop-up.
    pub(super) fn title(&self) -> &'static str {
        match self.subject {
            Subject::Pause { .. } => "Pause the queue",
            Subject::Resume { .. } => "End the pause",
            Subject::Kick { .. } => "Kick all jobs",
            Subject::Clear { .. } => "End all jobs",
            Subject::KickJob { .. } => "Kick the job",
            Subject::DeleteJob { .. } => "Delete the job",
            Subject::Close { .. } => "Close the connection",
            Subject::Cancel { .. } => "Cancel the operation",
        }
    }

    /// What will happen.
    pub(super) fn explanation(&self) -> String {
        match &self.subject {
            Subject::Pause { queue } => format!(
                "Workers get no jobs of {queue} for this time. A pause ends if the server restarts."
            ),
            Subject::Resume { queue } => format!("Workers get jobs of {queue} again."),
            Subject::Kick { queue, state } => {
                format!("All {} jobs of {queue} become ready.", state.name())
            }
            Subject::Clear { queue, state, counts } => {
                let [ready, delayed, buried] = *counts;
                let (number, which) = match state {
                    None => (ready + delayed + buried, "ready, delayed and buried"),
                    Some(JobState::Delayed) => (delayed, "delayed"),
                    Some(JobState::Buried) => (buried, "buried"),
                    Some(_) => (ready, "ready"),
                };
                format!(
                    "{} {which} jobs of {queue} are lost. You cannot undo this. Leased jobs stay.",
                    number::count(number)
                )
            }
            Subject::KickJob { id } => format!("Job {id} becomes ready."),
            Subject::DeleteJob { id, is_leased: false } => {
                format!("Job {id} is lost. You cannot undo this.")
            }
            Subject::DeleteJob { id, is_leased: true } => format!(
                "A worker has job {id}. The job ends, and the worker loses it. You cannot undo this."
            ),
            Subject::Close { connection, address, holds } => format!(
                "Connection {connection} from {address} is closed. Its {} go back to their queues.",
                crate::text::counted(*holds, "job")
            ),
            Subject::Cancel { operation } => {
                format!("Operation {operation} stops. The jobs that it has changed stay changed.")
            }
        }
    }

    /// The label of the text that the user types, if the question needs one.
    pub(super) fn label(&self) -> Option<&'static str> {
        match self.subject {
            Subject::Pause { .. } => Some("for"),
            Subject::Clear { .. } => Some("name of the queue"),
            _ => None,
        }
    }

    /// The present one of several choices, which Tab changes.
    pub(super) fn choice(&self) -> Option<&'static str> {
        match self.subject {
            Subject::Kick { state, .. } => Some(state.name()),
            Subject::Clear { state, .. } => Some(state.map_or("all states", JobState::name)),
            _ => None,
        }
    }

    /// The action, as far as it is known.
    pub(super) fn action(&self) -> Result<Action, String> {
        Ok(match self.subject.clone() {
            Subject::Pause { queue } => match duration::parse_seconds(self.text.trim()) {
                Ok(0) => return Err("write at least one second".to_owned()),
                Ok(seconds) => Action::Pause { queue, seconds },
                Err(error) => return Err(error),
            },
            Subject::Resume { queue } => Action::Resume { queue },
            Subject::Kick { queue, state } => Action::Kick { queue, state },
            Subject::Clear { queue, state, .. } => Action::Clear { queue, state },
            Subject::KickJob { id } => Action::KickJob(id),
            Subject::DeleteJob { id, is_leased } => Action::DeleteJob { id, is_leased },
            Subject::Close { connection, .. } => Action::Close { connection },
            Subject::Cancel { operation } => Action::Cancel(operation),
        })
    }

    /// Handles a key.
    pub(super) fn handle(&mut self, key: KeyCode) -> Outcome {
        self.mistake = None;
        let is_typing = self.label().is_some();
        match key {
            KeyCode::Char(character) if is_typing => self.text.push(character),
            KeyCode::Esc | KeyCode::Char('n' | 'q') => return Outcome::Closed,
            KeyCode::Enter | KeyCode::Char('y') => return self.finish(),
            KeyCode::Tab => self.choose_next(),
            KeyCode::Backspace => drop(self.text.pop()),
            _ => {}
        }
        Outcome::Open
    }

    fn finish(&mut self) -> Outcome {
        if let Subject::Clear { queue, .. } = &self.subject
            && self.text != *queue
        {
            self.mistake = Some("type the name of the queue to confirm".to_owned());
            return Outcome::Open;
        }
        match self.action() {
            Ok(action) => Outcome::Do(action),
            Err(mistake) => {
                self.mistake = Some(mistake);
                Outcome::Open
            }
        }
    }

    fn choose_next(&mut self) {
        match &mut self.subject {
            Subject::Kick { state, .. } => {
                *state =
                    if *state == JobState::Buried { JobState::Delayed } else { JobState::Buried };
            }
            Subject::Clear { state, .. } => {
                *state = match state {
                    Some(JobState::Ready) => Some(JobState::Delayed),
                    Some(JobState::Delayed) => Some(JobState::Buried),
                    Some(_) => None,
                    None => Some(JobState::Ready),
                };
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_in(prompt: &mut Prompt, text: &str) {
        for character in text.chars() {
            assert_eq!(prompt.handle(KeyCode::Char(character)), Outcome::Open);
        }
    }

    #[test]
    fn a_clear_needs_the_name() {
        let queue = || "mail".to_owned();
        let subject =
            Subject::Clear { queue: queue(), state: Some(JobState::Buried), counts: [1, 2, 3] };
        let mut prompt = Prompt::new(subject);
        assert!(prompt.explanation().starts_with("3 buried jobs of mail are lost."));
        assert_eq!(prompt.handle(KeyCode::Enter), Outcome::Open);
        assert!(prompt.mistake.is_some());
        type_in(&mut prompt, "mai");
        assert_eq!(prompt.handle(KeyCode::Enter), Outcome::Open);
        type_in(&mut prompt, "l");
        assert_eq!(prompt.handle(KeyCode::Tab), Outcome::Open);
        assert!(prompt.explanation().starts_with("6 ready, delayed and buried jobs"));
        let action = Action::Clear { queue: queue(), state: None };
        assert_eq!(prompt.handle(KeyCode::Enter), Outcome::Do(action));
    }

    #[test]
    fn a_pause_needs_a_time() {
        let mut prompt = Prompt::new(Subject::Pause { queue: "mail".to_owned() });
        type_in(&mut prompt, "y");
        assert_eq!(prompt.handle(KeyCode::Enter), Outcome::Open);
        assert!(prompt.mistake.is_some());
        prompt.handle(KeyCode::Backspace);
        let action = Action::Pause { queue: "mail".to_owned(), seconds: 600 };
        assert_eq!(prompt.handle(KeyCode::Enter), Outcome::Do(action));
    }

    #[test]
    fn y_and_n_answer_a_simple_question() {
        let mut prompt = Prompt::new(Subject::Cancel { operation: 3 });
        assert_eq!(prompt.handle(KeyCode::Char('x')), Outcome::Open);
        assert_eq!(prompt.handle(KeyCode::Char('n')), Outcome::Closed);
        assert_eq!(prompt.handle(KeyCode::Char('y')), Outcome::Do(Action::Cancel(3)));
    }
}
