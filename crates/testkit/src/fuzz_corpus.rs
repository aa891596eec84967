//! The corpus of the fuzz targets, which tests also play.

use std::path::Path;

/// The files of the fuzz target of this name. Panics if there are fewer than `files_min`, because
/// then the folder was probably moved.
pub fn fuzz_corpus(target: &str, files_min: usize) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(folder).expect("the corpus is in the repository");
    let read = |path| std::fs::read(path).expect("the file is readable");
    let files: Vec<Vec<u8>> =
        entries.map(|entry| read(entry.expect("the folder is readable").path())).collect();
    assert!(files.len() >= files_min, "only {} files in {target}", files.len());
    files
}
