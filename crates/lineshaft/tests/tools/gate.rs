//! A command that shows the test when it runs, and that ends when the test opens the gate.

use std::path::PathBuf;

use super::{World, wait_until};

/// A command that creates a file when it runs, and ends when the test creates another file.
pub(super) struct Gate {
    folder: PathBuf,
}

impl Gate {
    pub(super) fn new(world: &World) -> Gate {
        let folder = world.folder.path().join("gate");
        std::fs::create_dir(&folder).unwrap();
        Gate { folder }
    }

    /// The command, for a shell.
    pub(super) fn command(&self) -> String {
        let folder = self.folder.display();
        format!("touch {folder}/running; while [ ! -e {folder}/open ]; do sleep 0.02; done")
    }

    /// Waits until the command runs. A lease does not show that the command runs: the worker takes
    /// the job and requests its statistics before it starts the command.
    pub(super) fn wait_until_running(&self) {
        wait_until("the command to run", || self.folder.join("running").exists());
    }

    /// Makes the next `wait_until_running` wait for another run.
    pub(super) fn forget_run(&self) {
        std::fs::remove_file(self.folder.join("running")).unwrap();
    }

    pub(super) fn open(&self) {
        std::fs::write(self.folder.join("open"), "").unwrap();
    }
}
