//! The arm of windrow.

/// Encodes texts to ids, and to the offset of each text's ids, ended by their number.
pub type Encode = Box<dyn Fn(&[&str]) -> (Vec<u32>, Vec<u64>)>;

pub fn load(tokenizer_json: &[u8], threads: usize) -> Encode {
    use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

    let tokenizer = Tokenizer::from_json(tokenizer_json, "tokenizer.json", &LoadOptions::default()).expect("loads");
    let pool = windrow::Pool::new(threads);
    Box::new(move |texts| {
        let batch = pool.install(|| tokenizer.encode_batch_ids(texts)).expect("encodes");
        (batch.values, batch.offsets)
    })
}
