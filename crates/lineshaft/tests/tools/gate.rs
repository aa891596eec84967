//! A command whose start a test can see, and whose end a test controls.

use std::path::PathBuf;

use super::{World, wait_until};

/// A command that reports its start, and ends when the test lets it.
pub(super) struct Gate {
    folder: PathBuf,
}

impl Gate {
    pub(super) fn new(world: &World) -> Gate {
        let folder = world.folder.path().join("gate");
        std::fs::create_dir(&folder).unwrap();
        Gate { folder }
    }

    /// The command for a shell.
    pub(super) fn command(&self) -> String {
        let folder = self.folder.display();
        format!("touch {folder}/running; while [ ! -e {folder}/open ]; do sleep 0.02; done")
    }

    /// A lease alone does not show it, because the worker can ask about the job before it starts
    /// the command.
    pub(super) fn wait_until_running(&self) {
        wait_until("the command to run", || self.folder.join("running").exists());
    }

    /// The next `wait_until_running` waits for another run.
    pub(super) fn forget_run(&self) {
        std::fs::remove_file(self.folder.join("running")).unwrap();
    }

    pub(super) fn open(&self) {
        std::fs::write(self.folder.join("open"), "").unwrap();
    }
}
