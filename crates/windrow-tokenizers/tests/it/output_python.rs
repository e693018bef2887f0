//! Formats of Python's libraries, read by these libraries if they are installed.

use std::path::Path;
use std::process::Command;

use windrow_tokenizers::manifest::{Documents, EncodeJob, Manifest, TokenizerIdentity};
use windrow_tokenizers::output::{Document, Format, Kept, Output, OutputOptions};

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
    // datatrove itself has a file of masks.
    let mask = format == Format::Datatrove;
    let options =
        OutputOptions { format, mask, append_eos: Some(1), ..OutputOptions::new(directory.join("out"), vocab_size) };
    let mut output = Output::create(&options).unwrap();
    let (ids, ends) = ([10, 20, 30, vocab_size - 1], [3, 3, 4]);
    let mut begin = 0;
    for end in ends {
        let mask: &[u8] = if mask { &[0, 1, 1, 1][begin..end] } else { &[] };
        output.push(Document { ids: &ids[begin..end], mask, ..Document::default() }).unwrap();
        begin = end;
    }
    let documents = Documents { read: 3, written: 3, ..Documents::default() };
    let tokenizer = TokenizerIdentity { name: "gpt2".into(), ..TokenizerIdentity::default() };
    output.publish(Manifest { documents, tokenizer, ..Manifest::default() }).unwrap();
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
    // Its own merger reads index, metadata and masks, and writes all of them again.
    let merge = "import numpy as np; from datatrove.pipeline.tokens.merger import DocumentTokenizerMerger
DocumentTokenizerMerger('.', 'merged', 'all', shuffle=False, save_loss_metadata=True, progress=False).run()
ends = '', '.index', '.metadata', '.loss'
same = [open('out.ds' + end, 'rb').read() == open('merged/000_all.ds' + end, 'rb').read() for end in ends]
print(same, np.fromfile('merged/000_all.ds.loss', dtype=bool).astype(int).tolist())";
    for (vocab_size, size) in [(300, "2"), (200_019, "4")] {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), Format::Datatrove, vocab_size);
        let windows = windows.replace("sys.argv[1]", size);
        let expected = format!("1 ([10, 20, 30, 1, 1, {}, 1], [0, 1, 2, 3, 0, 0, 1])", vocab_size - 1);
        check(directory.path(), &windows, &expected);
        check(directory.path(), merge, "[True, True, True, True] [0, 1, 1, 0, 0, 1, 0]");
    }
}

/// A folder of MDS: documents of `first` times 130 ids and more, every third of which has the mask 1, with kept fields that are null, a
/// string, a list or a number.
fn write_mds(directory: &Path, vocab_size: u32, shard_bytes: Option<u64>, first: u32) {
    let keep = vec!["url".to_owned(), "id".to_owned()];
    let reading = EncodeJob { keep: keep.clone(), ..EncodeJob::default() };
    let prefix = directory.join("out");
    let format = Format::Mds;
    let options = OutputOptions { format, keep, shard_bytes, mask: true, ..OutputOptions::new(prefix, vocab_size) };
    let mut output = Output::create(&options).unwrap();
    for number in first..7 {
        let ids: Vec<u32> = (0..number * 130).map(|id| vocab_size - 1 - id % 290).collect();
        let mask: Vec<u8> = (0..ids.len()).map(|at| u8::from(at % 3 == 0)).collect();
        let mut kept = Kept::default();
        for value in [["null", "\"a b\\n\"", "[1, 2]"][number as usize % 3], &number.to_string()] {
            kept.bytes.extend_from_slice(value.as_bytes());
            kept.end();
        }
        output.push(Document { ids: &ids, mask: &mask, kept: kept.values() }).unwrap();
    }
    let written = u64::from(7 - first);
    let documents = Documents { read: written, written, ..Documents::default() };
    output.publish(Manifest { documents, options: reading, ..Manifest::default() }).unwrap();
}

#[test]
fn mosaicml_streaming_reads_mds_and_writes_the_same_bytes() {
    if is_missing("mosaicml-streaming", "from streaming import LocalDataset, MDSWriter") {
        return;
    }
    let read = "from streaming import LocalDataset
data = LocalDataset('out')
for number, item in enumerate(data):
    ids = [VOCABULARY - 1 - i % 290 for i in range(number * 130)]
    assert item['tokens'].dtype == 'DTYPE' and item['tokens'].tolist() == ids
    assert item['mask'].dtype == 'uint8' and item['mask'].tolist() == [int(i % 3 == 0) for i in range(number * 130)]
    assert item['id'] == number and item['url'] == [None, 'a b\\n', [1, 2]][number % 3], item
print(len(data.shards), len(data))";
    let again = "from streaming import LocalDataset, MDSWriter
columns = {'tokens': 'ndarray:DTYPE', 'mask': 'ndarray:uint8', 'id': 'json', 'url': 'json'}
with MDSWriter(out='again', columns=columns, size_limit=1 << 26) as writer:
    for item in LocalDataset('out'): writer.write(item)
names = 'shard.00000.mds', 'index.json'
print([open('out/' + name, 'rb').read() == open('again/' + name, 'rb').read() for name in names])";
    for (vocab_size, dtype, shards) in [(300, "uint16", 4), (200_019, "uint32", 5)] {
        let fill = |program: &str| program.replace("VOCABULARY", &vocab_size.to_string()).replace("DTYPE", dtype);
        let written = |shard_bytes, first| {
            let directory = tempfile::tempdir().unwrap();
            write_mds(directory.path(), vocab_size, shard_bytes, first);
            directory
        };
        check(written(Some(1000), 0).path(), &fill(read), &format!("{shards} 7"));
        check(written(None, 0).path(), &fill(read), "1 7");
        // Its writer refuses arrays without elements.
        check(written(None, 1).path(), &fill(again), "[True, True]");
    }
}

#[test]
fn tarfile_and_numpy_read_webdataset() {
    if numpy_is_missing() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (format, keep) = (Format::Webdataset, vec!["url".to_owned(), "a b".to_owned()]);
    let shard_bytes = Some(900);
    let options = OutputOptions {
        format,
        keep: keep.clone(),
        mask: true,
        shard_bytes,
        append_eos: Some(9),
        ..OutputOptions::new(directory.path().join("out"), 70_000)
    };
    let mut output = Output::create(&options).unwrap();
    let kept = Kept { bytes: b"\"a.org\"[1]".to_vec(), ends: vec![7, 10] };
    for number in 0..5_u32 {
        let ids: Vec<u32> = (0..number * 40).collect();
        let mask: Vec<u8> = ids.iter().map(|id| (id % 2) as u8).collect();
        output.push(Document { ids: &ids, mask: &mask, kept: kept.values() }).unwrap();
    }
    let documents = Documents { read: 5, written: 5, ..Documents::default() };
    let reading = EncodeJob { keep, ..EncodeJob::default() };
    output.publish(Manifest { documents, options: reading, ..Manifest::default() }).unwrap();
    let program = "import io, json, tarfile, numpy as np
for shard in '0', '1':
    with tarfile.open(f'out-0000{shard}.tar') as tar:
        files = [(file.name.split('.', 1), file.mode, tar.extractfile(file).read()) for file in tar]
    for (ids, _, a), (mask, mode, b), (kept, _, c) in zip(files[::3], files[1::3], files[2::3]):
        a, b = np.load(io.BytesIO(a)), np.load(io.BytesIO(b))
        assert [ids[1], mask[1], kept[1], mode] == ['ids.npy', 'mask.npy', 'kept.json', 0o644] and a[-1] == 9
        assert json.loads(c) == {'url': 'a.org', 'a b': [1]}
        print(shard, ids[0], a.dtype, len(a), b.sum(), end=';')";
    let expected = "0 000000000 uint32 1 0;0 000000001 uint32 41 20;0 000000002 uint32 81 40;\
                    0 000000003 uint32 121 60;1 000000004 uint32 161 80;";
    check(directory.path(), program, expected);
}
