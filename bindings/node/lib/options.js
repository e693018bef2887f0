'use strict';
// The options of `encodeFiles`, written from the types of Rust by a test: tests/it/front_ends.rs.

/**
 * The options of a run. Null is no option.
 * @typedef {object} RunOptions
 * @property {boolean | null} [addSpecialTokens] Add the tokens that the template of a tokenizer.json puts around a document, such as BERT's CLS and SEP.
 * @property {boolean | null} [allText] Treat all files as text, regardless of their extensions; non-text files in directories are ignored.
 * @property {boolean | null} [appendEos] Append the token that ends a document to every document; nanogpt always does.
 * @property {string | number | null} [bos] Begin every document with this token, given by name or id.
 * @property {string | URL | null} [chat] Treat the messages in JSON lines or Parquet as conversations, and render them with a chat template: the one next to the tokenizer.json, or a file.
 * @property {string | null} [chatDate] The date that a chat template uses as today's date.
 * @property {'u16' | 'u32' | 'i32' | null} [dtype] Type of the ids; by default, it follows from the size of the vocabulary.
 * @property {string | number | null} [eos] The token that ends a document, by name or id; the embedded vocabularies have a default.
 * @property {string | readonly string[] | null} [ext] Additional extensions of text files, such as rs,py,c.
 * @property {string | readonly string[] | null} [field] The field of a JSON line, or the column of a Parquet file, that holds the text; a.b is field b of object a. Several fields are joined [default: text; for conversations, messages].
 * @property {'npy' | 'nanogpt' | 'megatron' | 'datatrove' | 'mds' | 'jsonl' | 'webdataset' | 'arrow' | 'arrow-stream' | 'parquet' | null} [format] Layout of the output. [default: npy]
 * @property {boolean | null} [hidden] Also read hidden files and folders in directories, such as .git and _temporary.
 * @property {'text' | 'lines' | 'jsonl' | 'parquet' | 'warc' | null} [inputFormat] Format of all inputs, regardless of their extensions. Without this option, stdin is read as text. With jsonl, .json files in directories are also read.
 * @property {string | null} [join] Separator of the texts of several fields [default: a line break].
 * @property {string | readonly string[] | null} [keep] Fields or columns to keep: in OUT.kept.jsonl, one line per document, or as columns with arrow and parquet.
 * @property {number | null} [limit] Stop after the N-th good document; the rest is not read.
 * @property {boolean | null} [lines] Treat every line of a text file as a document.
 * @property {'all' | 'assistant' | null} [loss] The tokens that contribute to the training loss. With assistant, masks are written: OUT.mask.npy, OUT.ds.loss for datatrove, or a field or column named mask.
 * @property {boolean | null} [noIgnore] Also read files in directories that .gitignore and similar files exclude. In a corpus, such files are always read.
 * @property {'fail' | 'skip' | null} [onError] What to do with a bad document: end the run, or skip it and list it in OUT.skipped.jsonl. [default: fail]
 * @property {number | null} [pack] Pack the documents, one after the other, into rows of N ids for models with a fixed context; OUT.cu_seqlens.npy and OUT.docs.npy record where the documents are.
 * @property {'split' | 'whole' | null} [packMode] How documents become rows: cut at the end of a row, or whole, unless longer than a row. [default: split]
 * @property {string | number | null} [pad] The token that fills incomplete rows, by name or id. Without it, the incomplete row at the end is dropped.
 * @property {number | string | null} [sample] Encode a share of the documents, such as 0.01 or 1%, chosen by a hash of the seed, the input and the document's number in it.
 * @property {number | null} [seed] Seed for sample and the parts of split: a different number chooses different documents [default: 0].
 * @property {number | string | null} [shardSize] Divide the output into shards of about this size of token data, such as 1GiB: OUT-00000.bin, OUT-00001.bin and so on. Each shard is complete in itself, and no document is divided. The mds format always uses shards, of 64MiB by default.
 * @property {number | null} [shuffle] Shuffle the documents, with this number as the seed. They are spilled to the disk of OUT if they do not fit in memory.
 * @property {boolean | null} [specialInText] Recognize special tokens that appear in a text, such as <|endoftext|>. Without this option, they are plain text.
 * @property {Readonly<Record<string, number | string>> | null} [split] Divide the documents by a hash: with train=0.98,val=0.02 into OUT.train.bin and OUT.val.bin. The shares must add up to 1.
 * @property {number | string | null} [maxSkipped] Maximum number of documents to skip, or a percentage of those read. If all documents are bad, the run always fails.
 * @property {number | string | null} [memory] Memory budget of the run, such as 512M; the tokenizer is not included. [default: 1G]
 * @property {boolean | null} [overwrite] Replace existing files, once the new ones are complete.
 * @property {boolean | null} [resume] Continue an interrupted run with the same inputs and options after its last finished shard, if it finished one. Needs shardSize, except with mds.
 * @property {number | string | null} [threads] Number of threads that encode; auto: as many as CPU affinity and quota allow [default: auto, or 1 if TOKENIZERS_PARALLELISM is false].
 * @property {string | URL | null} [trace] Write a timeline for Perfetto or Chrome that shows when each batch was in each stage.
 */

/** Options that decide the output. */
const JOB = [
  'addSpecialTokens',
  'allText',
  'appendEos',
  'bos',
  'chat',
  'chatDate',
  'dtype',
  'eos',
  'ext',
  'field',
  'format',
  'hidden',
  'inputFormat',
  'join',
  'keep',
  'limit',
  'lines',
  'loss',
  'noIgnore',
  'onError',
  'pack',
  'packMode',
  'pad',
  'sample',
  'seed',
  'shardSize',
  'shuffle',
  'specialInText',
  'split',
];

/** Options that do not change the output. */
const RUN = [
  'maxSkipped',
  'memory',
  'overwrite',
  'resume',
  'threads',
  'trace',
];

module.exports = { JOB, RUN };
