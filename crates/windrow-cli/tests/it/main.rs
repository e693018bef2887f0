//! End-to-end tests of the command. Those over MPI need a feature.

mod bad_compression;
mod bad_inputs;
mod bad_jsonl;
mod bad_options;
mod bad_output;
#[cfg(feature = "parquet")]
mod bad_parquet;
mod bad_plan;
mod bad_resources;
mod bad_text;
mod bad_tokenizer;
mod bench;
#[cfg(unix)]
mod book;
mod chat;
mod common;
mod count;
mod doctor;
mod doors;
mod encode;
mod encode_counts;
mod encode_fields;
mod engine_memory;
mod engines;
mod front_ends;
mod habits;
mod hostile;
mod memory;
mod plan;
mod plan_import;
mod plan_kernels;
mod plan_measured;
mod plan_profiles;
mod plan_published;
mod resume;
mod same_bytes;
mod select;
mod shards;
mod signals;
mod spec;
mod timeline;
mod verify;
