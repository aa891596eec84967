//! Reads the corpora of the fuzz targets. Tests play them, too.

use std::path::Path;

/// The files in the corpus of this fuzz target. Panics if there are fewer than `files_min` files,
/// because the folder was then probably moved.
pub fn fuzz_corpus(target: &str, files_min: usize) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(folder).expect("the corpus is in the repository");
    let read = |path| std::fs::read(path).expect("the file is readable");
    let files: Vec<Vec<u8>> =
        entries.map(|entry| read(entry.expect("the folder is readable").path())).collect();
    assert!(files.len() >= files_min, "only {} files in {target}", files.len());
    files
}
