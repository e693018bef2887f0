//! Formats of Python's libraries, read by these libraries if they are installed.

use std::path::Path;
use std::process::Command;

use windrow_tokenizers::manifest::{Documents, ManifestBody, TokenizerIdentity};
use windrow_tokenizers::output::{Format, Output, OutputOptions};

fn is_missing(library: &str, import: &str) -> bool {
    let found = Command::new("python3").args(["-c", import]).output().is_ok_and(|run| run.status.success());
    if !found {
        println!("skipped: python3 with {library} is not installed");
    }
    !found
}

fn numpy_is_missing() -> bool {
    is_missing("numpy", "import numpy")
}

fn write(directory: &Path, format: Format, vocab_size: u32) {
    let options =
        OutputOptions { format, append_eos: Some(1), ..OutputOptions::new(directory.join("out"), vocab_size) };
    let mut output = Output::create(&options).unwrap();
    output.append(&[10, 20, 30, vocab_size - 1], &[3, 3, 4]).unwrap();
    let documents = Documents { read: 3, written: 3, ..Documents::default() };
    let tokenizer = TokenizerIdentity { name: "gpt2".into(), ..TokenizerIdentity::default() };
    output.publish(ManifestBody { documents, tokenizer, ..ManifestBody::default() }).unwrap();
}

/// Runs `program` in `directory` and expects it to print `expected`.
fn check(directory: &Path, program: &str, expected: &str) {
    let run = Command::new("python3").current_dir(directory).args(["-c", program]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert_eq!(out.trim(), expected, "{err}");
}

#[test]
fn numpy_loads_and_maps_npy() {
    if numpy_is_missing() {
        return;
    }
    let program = "import numpy as np
for mode in None, 'r':
    ids, offsets = np.load('out.ids.npy', mode), np.load('out.offsets.npy', mode)
    print(ids.dtype, offsets.dtype, *[ids[a:b].tolist() for a, b in zip(offsets, offsets[1:])], end=';')";
    for (vocab_size, dtype) in [(300, "uint16"), (200_019, "uint32")] {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), Format::Npy, vocab_size);
        let expected = format!("{dtype} uint64 [10, 20, 30, 1] [1] [{}, 1];", vocab_size - 1);
        check(directory.path(), program, &expected.repeat(2));
    }
}

#[test]
fn numpy_maps_nanogpt() {
    if numpy_is_missing() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), Format::Nanogpt, 50_257);
    let program = "import numpy as np; print(np.memmap('out.bin', dtype=np.uint16, mode='r').tolist())";
    check(directory.path(), program, "[10, 20, 30, 1, 1, 50256, 1]");
}

#[test]
fn datatrove_reads_windows_and_merges_documents() {
    if is_missing("datatrove", "import datatrove.utils.dataset, datatrove.pipeline.tokens.merger") {
        return;
    }
    let windows = "import sys; from datatrove.utils.dataset import DatatroveFolderDataset
data = DatatroveFolderDataset('.', seq_len=6, token_size=int(sys.argv[1]), return_positions=True)
print(len(data), *[(item['input_ids'].tolist(), item['positions'].tolist()) for item in data])";
    // Its own merger reads the index and the metadata, and writes both again.
    let merge = "import numpy as np; from datatrove.pipeline.tokens.merger import DocumentTokenizerMerger
DocumentTokenizerMerger('.', 'merged', 'all', shuffle=False, progress=False).run()
same = [open('out.ds' + end, 'rb').read() == open('merged/000_all.ds' + end, 'rb').read() for end in ('', '.index', '.metadata')]
print(same)";
    for (vocab_size, size) in [(300, "2"), (200_019, "4")] {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), Format::Datatrove, vocab_size);
        let windows = windows.replace("sys.argv[1]", size);
        let expected = format!("1 ([10, 20, 30, 1, 1, {}, 1], [0, 1, 2, 3, 0, 0, 1])", vocab_size - 1);
        check(directory.path(), &windows, &expected);
        check(directory.path(), merge, "[True, True, True]");
    }
}
