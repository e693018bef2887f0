//! An overlap: a file is read, compressed and written at the same time, in blocks and in order.
//!
//! `cargo run --release -p windrow --example compress -- FILE` writes `FILE.rle`; without one, a bitmap that it makes.

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;

use windrow::overlap;

const BLOCK: u64 = 1 << 20;

/// Runs of equal bytes: a length, and the byte.
fn pack(block: &[u8]) -> Vec<u8> {
    block.chunk_by(|a, b| a == b).flat_map(|run| run.chunks(255)).flat_map(|run| [run.len() as u8, run[0]]).collect()
}

// The tests run it too.
pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bitmap = std::env::temp_dir().join(format!("windrow-{}.bitmap", std::process::id()));
    let path = std::env::args_os().nth(1).map(PathBuf::from).filter(|path| path.is_file()).unwrap_or(bitmap.clone());
    if path == bitmap {
        std::fs::write(&bitmap, (0..8_u32 << 20).map(|at| (at >> 10) as u8).collect::<Vec<_>>())?;
    }
    let mut packed = path.clone().into_os_string();
    packed.push(".rle");
    let (mut from, mut to) = (File::open(&path)?, File::create(&packed)?);
    let blocks = from.metadata()?.len().div_ceil(BLOCK);

    let mut trace = overlap::Trace::new();
    overlap::source(0..blocks)
        .blocking("read", |_| {
            let mut block = Vec::new();
            Read::by_ref(&mut from).take(BLOCK).read_to_end(&mut block).map(|_| block)
        })
        .compute_each("compress", |block: Vec<u8>| Ok(pack(&block)))
        .blocking("write", |packed| to.write_all(&packed))
        .trace(&mut trace)
        .run()?;

    println!("{} bytes, packed into {}", path.metadata()?.len(), std::fs::metadata(&packed)?.len());
    println!("{}", trace.explain());
    let pairs = std::fs::read(&packed)?;
    let unpacked = pairs.chunks_exact(2).flat_map(|pair| std::iter::repeat_n(pair[1], usize::from(pair[0])));
    assert!(unpacked.eq(std::fs::read(&path)?), "other bytes");
    if path == bitmap {
        std::fs::remove_file(bitmap)?;
        std::fs::remove_file(packed)?;
    }
    Ok(())
}
