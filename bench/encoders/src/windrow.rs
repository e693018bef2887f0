//! The arm of windrow. Its crate is a dependency only with the feature `windrow`.

/// Encodes texts to ids, and to the offset of each text's ids, ended by their number.
pub type Encode = Box<dyn Fn(&[&str]) -> (Vec<u32>, Vec<u64>)>;

#[cfg(not(feature = "windrow"))]
pub fn load(_tokenizer_json: &[u8], _threads: usize) -> Encode {
    panic!("built without windrow; hint: cargo build --release --features windrow")
}

#[cfg(feature = "windrow")]
pub fn load(_tokenizer_json: &[u8], _threads: usize) -> Encode {
    todo!("load windrow-bpe")
}
