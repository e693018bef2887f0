//! All tests of the crate.

mod added_tokens;
mod adversarial;
mod batch_encode;
#[cfg(feature = "parquet")]
mod chat;
#[cfg(unix)]
mod decode;
mod document_faults;
mod document_fields;
#[cfg(feature = "parquet")]
mod encode_account;
#[cfg(feature = "parquet")]
mod encode_pack;
#[cfg(feature = "parquet")]
mod encode_readers;
#[cfg(feature = "parquet")]
mod encode_select;
#[cfg(feature = "parquet")]
mod encode_shuffle;
#[cfg(feature = "parquet")]
mod encode_sinks;
#[cfg(feature = "parquet")]
mod encode_split;
mod encode_stop;
#[cfg(target_os = "linux")]
mod fork;
mod hostile_tokenizer;
#[cfg(feature = "parquet")]
mod input_columns;
mod input_common;
mod input_compression;
mod input_folders;
mod input_resolve;
mod input_split;
mod input_warc;
#[cfg(feature = "parquet")]
mod output_columns;
#[cfg(feature = "parquet")]
mod output_formats;
#[cfg(feature = "parquet")]
mod output_publish;
mod output_python;
mod parity;
mod rank_file;
mod tokenizer_degenerate;
mod tokenizer_gate;
mod tokenizer_load;
mod tokenizer_routes;
mod tokenizer_unicode;
mod too_little_memory;
