//! The keys: what each one does on each screen.

use std::ops::ControlFlow;

use api::types::{JobState, OperationStatus, Role};
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::ask::SortKey;
use super::list::List;
use super::model::{Model, Rights, Screen};
use super::prompt::{Outcome, Prompt, Subject};

/// The keys of the jobs' states on the screen of a queue.
pub(super) const STATES: [(char, JobState); 4] = [
    ('r', JobState::Ready),
    ('l', JobState::Leased),
    ('d', JobState::Delayed),
    ('b', JobState::Buried),
];

/// Lines that a page key scrolls a body.
const SCROLL_LINES: usize = 10;

/// The most important keys of a screen, for the last line.
pub(super) fn hints(model: &Model) -> Vec<&'static str> {
    if model.is_searching {
        return vec!["Enter keep", "Esc clear"];
    }
    let is_plain = matches!(model.rights, Rights::Tubes(_));
    let keys: &[&str] = match model.screen {
        Screen::Overview => &["1-6 screens", "/ find a queue"],
        Screen::Queues if is_plain => &["↑↓ move", "/ filter", "nrldbiow sort"],
        Screen::Queues => {
            &["Enter open", "/ filter", "nrldbaiogw sort", "P pause", "K kick", "C clear"]
        }
        Screen::Queue => &["rldb state", "Enter open", "P pause", "K kick", "C clear", "D delete"],
        Screen::Job => &["↑↓ scroll", "Enter queue", "K kick", "D delete"],
        Screen::Connections => &["↑↓ move", "Enter queue", "X close"],
        Screen::Operations => &["↑↓ move", "Enter queue", "X cancel"],
    };
    keys.to_vec()
}

impl Model {
    /// Handles a key. Returns `Break` if the user quits.
    pub(super) fn handle(&mut self, event: &Event) -> ControlFlow<()> {
        let Event::Key(key) = event else { return ControlFlow::Continue(()) };
        if key.kind == KeyEventKind::Release {
            return ControlFlow::Continue(());
        }
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return ControlFlow::Break(());
        }
        if let Some(prompt) = &mut self.prompt {
            match prompt.handle(key.code) {
                Outcome::Open => {}
                Outcome::Closed => self.prompt = None,
                Outcome::Do(action) => {
                    self.prompt = None;
                    self.start(action);
                }
            }
            return ControlFlow::Continue(());
        }
        self.note = None;
        if self.is_help {
            self.is_help = false;
        } else if self.is_searching {
            self.edit_search(key.code);
        } else {
            return self.press(key);
        }
        ControlFlow::Continue(())
    }

    fn press(&mut self, key: &KeyEvent) -> ControlFlow<()> {
        match key.code {
            KeyCode::Char('q') => return ControlFlow::Break(()),
            KeyCode::Char('?') | KeyCode::F(1) => self.is_help = true,
            KeyCode::Char(digit @ '1'..='6') => {
                self.open(Screen::ALL[digit as usize - '1' as usize].0);
            }
            KeyCode::Tab => self.open_neighbour(1),
            KeyCode::BackTab => self.open_neighbour(Screen::ALL.len() - 1),
            KeyCode::Char('/') => {
                self.open(Screen::Queues);
                self.is_searching = true;
            }
            KeyCode::Esc | KeyCode::Backspace => self.go_back(),
            KeyCode::Enter => self.open_selected(),
            KeyCode::Char(letter @ ('P' | 'K' | 'C' | 'D' | 'X')) => self.ask_for(letter),
            KeyCode::Char(letter) if self.choose(letter) => {}
            code => self.move_selection(code),
        }
        ControlFlow::Continue(())
    }

    fn open_neighbour(&mut self, steps: usize) {
        let place = Screen::ALL.iter().position(|(screen, _)| *screen == self.screen).unwrap_or(0);
        self.open(Screen::ALL[(place + steps) % Screen::ALL.len()].0);
    }

    fn edit_search(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_searching = false,
            KeyCode::Esc => {
                self.is_searching = false;
                self.search.clear();
            }
            KeyCode::Backspace => drop(self.search.pop()),
            KeyCode::Char(character) => self.search.push(character),
            _ => return,
        }
        self.queues.home();
    }

    fn go_back(&mut self) {
        match self.screen {
            Screen::Overview => {}
            Screen::Queues if !self.search.is_empty() => {
                self.search.clear();
                self.queues.home();
            }
            Screen::Queues if matches!(self.rights, Rights::Tubes(_)) => {}
            Screen::Queues | Screen::Connections | Screen::Operations => {
                self.open(Screen::Overview);
            }
            Screen::Queue => self.open(Screen::Queues),
            Screen::Job => self.open(Screen::Queue),
        }
    }

    fn open_selected(&mut self) {
        match self.screen {
            Screen::Overview => self.open(Screen::Queues),
            Screen::Queues => {
                if let Some(name) = self.queues.selected_name().map(str::to_owned) {
                    self.open_queue(&name);
                }
            }
            Screen::Queue => {
                if let Some(id) = self.queue.jobs.selected_name().and_then(|id| id.parse().ok()) {
                    self.open_job(id);
                }
            }
            Screen::Job => {
                if let Some(content) = &self.job_content {
                    let queue = content.job.queue.clone();
                    self.open_queue(&queue);
                }
            }
            Screen::Connections => {
                let page = self.connections_page.as_ref();
                let row = self.connections.selected().zip(page);
                let queue = row.and_then(|(row, page)| {
                    let row = page.items.get(row)?;
                    row.queues.first().or(row.used.as_ref()).cloned()
                });
                if let Some(queue) = queue {
                    self.open_queue(&queue);
                }
            }
            Screen::Operations => {
                let page = self.operations_page.as_ref();
                let row = self.operations.selected().zip(page);
                let queue = row.and_then(|(row, page)| Some(page.items.get(row)?.queue.clone()));
                if let Some(queue) = queue {
                    self.open_queue(&queue);
                }
            }
        }
    }

    /// The letters that choose an order or a state. Returns false if the letter chooses nothing.
    fn choose(&mut self, letter: char) -> bool {
        match self.screen {
            Screen::Queues => {
                let key = SortKey::ALL.iter().find(|(known, ..)| *known == letter);
                if let Some((_, key, _)) = key {
                    self.order = self.order.after(*key);
                    self.queues.home();
                }
                key.is_some()
            }
            Screen::Queue => {
                let state = STATES.iter().find(|(known, _)| *known == letter);
                if let Some((_, state)) = state
                    && self.queue.state != *state
                {
                    self.queue.state = *state;
                    self.queue.jobs = List::turning();
                }
                self.queue.is_chosen |= state.is_some();
                state.is_some()
            }
            _ => false,
        }
    }

    fn move_selection(&mut self, key: KeyCode) {
        let page = self.page_rows.cast_signed().max(1);
        let Some(list) = self.list() else {
            self.scroll = match key {
                KeyCode::Down | KeyCode::Char('j') => self.scroll + 1,
                KeyCode::Up | KeyCode::Char('k') => self.scroll.saturating_sub(1),
                KeyCode::PageDown | KeyCode::Char(' ') => self.scroll + SCROLL_LINES,
                KeyCode::PageUp => self.scroll.saturating_sub(SCROLL_LINES),
                KeyCode::Home => 0,
                KeyCode::End => usize::MAX,
                _ => return,
            };
            return;
        };
        match key {
            KeyCode::Down | KeyCode::Char('j') => list.move_by(1),
            KeyCode::Up | KeyCode::Char('k') => list.move_by(-1),
            KeyCode::PageDown | KeyCode::Char(' ') if list.has_next() => list.next_page(),
            KeyCode::PageDown | KeyCode::Char(' ') => list.move_by(page),
            KeyCode::PageUp if list.rows_before() > 0 => list.previous_page(),
            KeyCode::PageUp => list.move_by(-page),
            KeyCode::Home => list.home(),
            KeyCode::End => list.end(),
            _ => {}
        }
    }

    /// Opens the pop-up of an action, if it makes sense here and the user may do it.
    fn ask_for(&mut self, letter: char) {
        let Some(subject) = self.subject(letter) else { return };
        let needs = match subject {
            Subject::Close { .. } => Role::Admin,
            _ => Role::Operator,
        };
        let refusal = match &self.rights {
            Rights::Tubes(_) => Some("this needs the HTTP API of Lineshaft".to_owned()),
            Rights::Api(role) if *role < needs => Some(format!(
                "this needs the role {}, and yours is {}; name a token with --token-file or \
                 LINESHAFT_TOKEN",
                needs.name(),
                role.name()
            )),
            Rights::Api(_) => None,
        };
        match refusal {
            Some(refusal) => self.note = Some(Err(refusal)),
            None => self.prompt = Some(Prompt::new(subject)),
        }
    }

    fn subject(&self, letter: char) -> Option<Subject> {
        match (self.screen, letter) {
            (Screen::Queues, 'P' | 'K' | 'C') => {
                let row = self.queues.selected()?;
                let row = self.queues_page.as_ref()?.items.get(row)?;
                let counts = [row.ready, row.delayed, row.buried];
                Some(about_queue(letter, &row.name, row.pause_left_ms > 0, counts))
            }
            (Screen::Queue, 'P' | 'K' | 'C') => {
                let queue = &self.queue.content.as_ref()?.queue;
                let counts = [queue.ready, queue.delayed, queue.buried];
                Some(about_queue(letter, &queue.name, queue.pause_left_ms > 0, counts))
            }
            (Screen::Queue, 'D') => {
                let row = self.queue.jobs.selected()?;
                let job = self.queue.content.as_ref()?.jobs.items.get(row)?;
                Some(Subject::DeleteJob { id: job.id, is_leased: job.state == JobState::Leased })
            }
            (Screen::Job, 'K' | 'D') => {
                let job = &self.job_content.as_ref().filter(|_| self.refusal.is_none())?.job;
                let is_leased = job.state == JobState::Leased;
                Some(if letter == 'K' {
                    Subject::KickJob { id: job.id }
                } else {
                    Subject::DeleteJob { id: job.id, is_leased }
                })
            }
            (Screen::Connections, 'X') => {
                let row = self.connections.selected()?;
                let row = self.connections_page.as_ref()?.items.get(row)?;
                Some(Subject::Close {
                    connection: row.id.clone()?,
                    address: row.address.clone(),
                    holds: row.holds,
                })
            }
            (Screen::Operations, 'X') => {
                let row = self.operations.selected()?;
                let row = self.operations_page.as_ref()?.items.get(row)?;
                (row.status == OperationStatus::Running)
                    .then_some(Subject::Cancel { operation: row.id })
            }
            _ => None,
        }
    }
}

/// The subject of an action on a queue. The counts are those of ready, delayed and buried jobs.
fn about_queue(letter: char, name: &str, is_paused: bool, counts: [u64; 3]) -> Subject {
    let queue = name.to_owned();
    let [ready, delayed, buried] = counts;
    match letter {
        'P' if is_paused => Subject::Resume { queue },
        'P' => Subject::Pause { queue },
        'K' => {
            let state =
                if buried == 0 && delayed > 0 { JobState::Delayed } else { JobState::Buried };
            Subject::Kick { queue, state }
        }
        _ => {
            let states = [
                (buried, JobState::Buried),
                (ready, JobState::Ready),
                (delayed, JobState::Delayed),
            ];
            let state = states.iter().find(|(jobs, _)| *jobs > 0).map(|(_, state)| *state);
            Subject::Clear { queue, state, counts }
        }
    }
}
