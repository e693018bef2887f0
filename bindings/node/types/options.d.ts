/**
 * The options of a run. Null is no option.
 */
export type RunOptions = {
    /**
     * Add the tokens that the template of a tokenizer.json puts around a document, such as CLS and SEP of BERT.
     */
    addSpecialTokens?: boolean | null | undefined;
    /**
     * Treat all files as text, regardless of their extensions; files of directories that are not text are passed over.
     */
    allText?: boolean | null | undefined;
    /**
     * Append the token that ends a document to every document; nanogpt always does.
     */
    appendEos?: boolean | null | undefined;
    /**
     * Begin every document with this token, given by its name or its id.
     */
    bos?: string | number | null | undefined;
    /**
     * Take the messages of JSON lines or Parquet as conversations, and render them by a chat template: that next to the tokenizer.json, or a file.
     */
    chat?: string | URL | null | undefined;
    /**
     * The day that a chat template sees as today.
     */
    chatDate?: string | null | undefined;
    /**
     * Type of the ids; by default the size of the vocabulary decides.
     */
    dtype?: "u16" | "u32" | "i32" | null | undefined;
    /**
     * The token that ends a document, by its name or its id; known for the embedded vocabularies.
     */
    eos?: string | number | null | undefined;
    /**
     * Additional extensions of text, such as rs,py,c.
     */
    ext?: string | readonly string[] | null | undefined;
    /**
     * The field of a JSON line, or the column of a Parquet file, that holds the text; a.b is the field b in the object a. Several are joined [default: text; of a conversation messages].
     */
    field?: string | readonly string[] | null | undefined;
    /**
     * Layout of the output. [default: npy]
     */
    format?: "npy" | "nanogpt" | "megatron" | "datatrove" | "mds" | "jsonl" | "webdataset" | "arrow" | "arrow-stream" | "parquet" | null | undefined;
    /**
     * Read hidden files and folders of directories, too: .git, _temporary.
     */
    hidden?: boolean | null | undefined;
    /**
     * Format of all inputs, regardless of their extensions. Stdin is text without it; with jsonl, .json files of directories are read too.
     */
    inputFormat?: "jsonl" | "parquet" | "text" | "lines" | "warc" | null | undefined;
    /**
     * Separator of the texts of several fields [default: a line break].
     */
    join?: string | null | undefined;
    /**
     * Fields or columns to carry along: in OUT.kept.jsonl, a line per document; as columns with arrow and parquet.
     */
    keep?: string | readonly string[] | null | undefined;
    /**
     * End with the document that is the N-th good one; what follows is not read.
     */
    limit?: number | null | undefined;
    /**
     * Treat every line of a text file as a document.
     */
    lines?: boolean | null | undefined;
    /**
     * The tokens that count in training. With assistant, masks are written: OUT.mask.npy, OUT.ds.loss for datatrove, or a field or column mask.
     */
    loss?: "all" | "assistant" | null | undefined;
    /**
     * Read files of directories that .gitignore and similar files name, too. In a corpus they are always read.
     */
    noIgnore?: boolean | null | undefined;
    /**
     * What to do with a bad document: end the run, or skip it and list it in OUT.skipped.jsonl. [default: fail]
     */
    onError?: "fail" | "skip" | null | undefined;
    /**
     * Make rows of N ids of the documents, one after the other, for models with a fixed context; OUT.cu_seqlens.npy and OUT.docs.npy record where the documents are.
     */
    pack?: number | null | undefined;
    /**
     * How documents become rows: cut at the end of a row, or whole, unless longer than a row. [default: split]
     */
    packMode?: "split" | "whole" | null | undefined;
    /**
     * The token that fills incomplete rows, by its name or its id. Without it, the incomplete row at the end is dropped.
     */
    pad?: string | number | null | undefined;
    /**
     * Encode a share of the documents, such as 0.01 or 1%, chosen by a hash of the seed, the input and the document's number in it.
     */
    sample?: string | number | null | undefined;
    /**
     * Another number chooses other documents for sample, and for the parts of split [default: 0].
     */
    seed?: number | null | undefined;
    /**
     * Divide the output into shards of about this size of token data, such as 1GiB: OUT-00000.bin, OUT-00001.bin and so on. Each is complete by itself, and no document is divided. The format mds always has shards, of 64MiB by default.
     */
    shardSize?: string | number | null | undefined;
    /**
     * Write the documents in another order, which depends on this number. They wait on the disk of OUT if they do not fit in memory.
     */
    shuffle?: number | null | undefined;
    /**
     * Recognize special tokens that are written in a text, such as <|endoftext|>. Without it they are plain text.
     */
    specialInText?: boolean | null | undefined;
    /**
     * Divide the documents by a hash: with train=0.98,val=0.02 into OUT.train.bin and OUT.val.bin. The shares add up to 1.
     */
    split?: Readonly<Record<string, string | number>> | null | undefined;
    /**
     * Maximum number of documents to skip, or a percentage of those read. If all are bad, the run always fails.
     */
    maxSkipped?: string | number | null | undefined;
    /**
     * Memory budget of the run, such as 512M; the tokenizer comes on top. [default: 1G]
     */
    memory?: string | number | null | undefined;
    /**
     * Replace existing files, once the new ones are complete.
     */
    overwrite?: boolean | null | undefined;
    /**
     * Continue after the last finished shard of an interrupted run with the same inputs and options, if there was one. Needs shardSize, but for mds.
     */
    resume?: boolean | null | undefined;
    /**
     * Threads that encode; auto: as many as affinity and quota allow [default: auto, or 1 if TOKENIZERS_PARALLELISM is false].
     */
    threads?: string | number | null | undefined;
    /**
     * Write when each batch was in each stage, as a timeline for Perfetto or Chrome.
     */
    trace?: string | URL | null | undefined;
};
/**
 * The options of a run. Null is no option.
 * @typedef {object} RunOptions
 * @property {boolean | null} [addSpecialTokens] Add the tokens that the template of a tokenizer.json puts around a document, such as CLS and SEP of BERT.
 * @property {boolean | null} [allText] Treat all files as text, regardless of their extensions; files of directories that are not text are passed over.
 * @property {boolean | null} [appendEos] Append the token that ends a document to every document; nanogpt always does.
 * @property {string | number | null} [bos] Begin every document with this token, given by its name or its id.
 * @property {string | URL | null} [chat] Take the messages of JSON lines or Parquet as conversations, and render them by a chat template: that next to the tokenizer.json, or a file.
 * @property {string | null} [chatDate] The day that a chat template sees as today.
 * @property {'u16' | 'u32' | 'i32' | null} [dtype] Type of the ids; by default the size of the vocabulary decides.
 * @property {string | number | null} [eos] The token that ends a document, by its name or its id; known for the embedded vocabularies.
 * @property {string | readonly string[] | null} [ext] Additional extensions of text, such as rs,py,c.
 * @property {string | readonly string[] | null} [field] The field of a JSON line, or the column of a Parquet file, that holds the text; a.b is the field b in the object a. Several are joined [default: text; of a conversation messages].
 * @property {'npy' | 'nanogpt' | 'megatron' | 'datatrove' | 'mds' | 'jsonl' | 'webdataset' | 'arrow' | 'arrow-stream' | 'parquet' | null} [format] Layout of the output. [default: npy]
 * @property {boolean | null} [hidden] Read hidden files and folders of directories, too: .git, _temporary.
 * @property {'text' | 'lines' | 'jsonl' | 'parquet' | 'warc' | null} [inputFormat] Format of all inputs, regardless of their extensions. Stdin is text without it; with jsonl, .json files of directories are read too.
 * @property {string | null} [join] Separator of the texts of several fields [default: a line break].
 * @property {string | readonly string[] | null} [keep] Fields or columns to carry along: in OUT.kept.jsonl, a line per document; as columns with arrow and parquet.
 * @property {number | null} [limit] End with the document that is the N-th good one; what follows is not read.
 * @property {boolean | null} [lines] Treat every line of a text file as a document.
 * @property {'all' | 'assistant' | null} [loss] The tokens that count in training. With assistant, masks are written: OUT.mask.npy, OUT.ds.loss for datatrove, or a field or column mask.
 * @property {boolean | null} [noIgnore] Read files of directories that .gitignore and similar files name, too. In a corpus they are always read.
 * @property {'fail' | 'skip' | null} [onError] What to do with a bad document: end the run, or skip it and list it in OUT.skipped.jsonl. [default: fail]
 * @property {number | null} [pack] Make rows of N ids of the documents, one after the other, for models with a fixed context; OUT.cu_seqlens.npy and OUT.docs.npy record where the documents are.
 * @property {'split' | 'whole' | null} [packMode] How documents become rows: cut at the end of a row, or whole, unless longer than a row. [default: split]
 * @property {string | number | null} [pad] The token that fills incomplete rows, by its name or its id. Without it, the incomplete row at the end is dropped.
 * @property {number | string | null} [sample] Encode a share of the documents, such as 0.01 or 1%, chosen by a hash of the seed, the input and the document's number in it.
 * @property {number | null} [seed] Another number chooses other documents for sample, and for the parts of split [default: 0].
 * @property {number | string | null} [shardSize] Divide the output into shards of about this size of token data, such as 1GiB: OUT-00000.bin, OUT-00001.bin and so on. Each is complete by itself, and no document is divided. The format mds always has shards, of 64MiB by default.
 * @property {number | null} [shuffle] Write the documents in another order, which depends on this number. They wait on the disk of OUT if they do not fit in memory.
 * @property {boolean | null} [specialInText] Recognize special tokens that are written in a text, such as <|endoftext|>. Without it they are plain text.
 * @property {Readonly<Record<string, number | string>> | null} [split] Divide the documents by a hash: with train=0.98,val=0.02 into OUT.train.bin and OUT.val.bin. The shares add up to 1.
 * @property {number | string | null} [maxSkipped] Maximum number of documents to skip, or a percentage of those read. If all are bad, the run always fails.
 * @property {number | string | null} [memory] Memory budget of the run, such as 512M; the tokenizer comes on top. [default: 1G]
 * @property {boolean | null} [overwrite] Replace existing files, once the new ones are complete.
 * @property {boolean | null} [resume] Continue after the last finished shard of an interrupted run with the same inputs and options, if there was one. Needs shardSize, but for mds.
 * @property {number | string | null} [threads] Threads that encode; auto: as many as affinity and quota allow [default: auto, or 1 if TOKENIZERS_PARALLELISM is false].
 * @property {string | URL | null} [trace] Write when each batch was in each stage, as a timeline for Perfetto or Chrome.
 */
/** Options that decide the output. */
export const JOB: string[];
/** Options that do not change the output. */
export const RUN: string[];
