//! Parquet files.

use std::cell::OnceCell;
use std::fs;

use tempfile::TempDir;
use windrow_tokenizers::input::{Compression, Fields, Format, InputFile};

use crate::reading::read;

thread_local! {
    static FOLDER: OnceCell<TempDir> = const { OnceCell::new() };
}

/// A record: whether its text is null, its text, and its place.
type Row = (bool, Vec<u8>, u64);

/// The first byte chooses the columns; the rest is the file.
pub(crate) fn run(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let text = if choice & 1 == 0 { names(&["text"]) } else { names(&["text", "a.b"]) };
    let keep = if choice & 2 == 0 { Vec::new() } else { names(&["id", "a.b"]) };
    let fields = Fields { text, join: "+".to_owned(), keep, conversations: choice & 4 != 0 };
    FOLDER.with(|folder| {
        let folder = folder.get_or_init(|| tempfile::tempdir().expect("a temporary folder"));
        let path = folder.path().join("fuzz.parquet");
        fs::write(&path, bytes).expect("a temporary file");
        let rows = |batch_bytes| {
            let mut rows: Vec<Row> = Vec::new();
            let file = InputFile::from_path(&path, Format::Parquet, Compression::None);
            let outcome = read(file, &fields, batch_bytes, &mut |batch, record| {
                rows.push((record.null.is_some(), batch.bytes_of(record).to_vec(), record.line));
            });
            (outcome.is_ok(), rows)
        };
        let [one, other] = [1 << 8, 1 << 20].map(rows);
        assert_eq!(one.0, other.0, "whether it can be read depends on the batch size");
        assert!(!one.0 || one == other, "rows depend on the batch size");
        assert!(one.1.iter().map(|row| row.2).eq(1..=one.1.len() as u64), "rows are numbered in order");
    });
}
