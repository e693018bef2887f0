//! The array formats, read by numpy if it is installed.

use std::path::Path;
use std::process::Command;

use windrow_tokenizers::manifest::{Documents, ManifestBody};
use windrow_tokenizers::output::{Format, Output, OutputOptions};

fn numpy_is_missing() -> bool {
    let found = Command::new("python3").args(["-c", "import numpy"]).output().is_ok_and(|run| run.status.success());
    if !found {
        println!("skipped: python3 with numpy is not installed");
    }
    !found
}

fn write(directory: &Path, format: Format, vocab_size: u32) {
    let options =
        OutputOptions { format, append_eos: Some(1), ..OutputOptions::new(directory.join("out"), vocab_size) };
    let mut output = Output::create(&options).unwrap();
    output.append(&[10, 20, 30, vocab_size - 1], &[3, 3, 4]).unwrap();
    let documents = Documents { read: 3, written: 3, ..Documents::default() };
    output.publish(ManifestBody { documents, ..ManifestBody::default() }).unwrap();
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
