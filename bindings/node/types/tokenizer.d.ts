/// <reference lib="esnext.disposable" preserve="true" />
export type LoadOptions = {
    /**
     * Special tokens that are written in a text are encoded as any other text. Default: false.
     */
    encodeSpecialTokens?: boolean | null | undefined;
};
export type EncodeOptions = {
    /**
     * Adds the special tokens of the tokenizer around each text, such as `[CLS]` and `[SEP]`. Default:
     * true, as in Hugging Face's libraries.
     */
    addSpecialTokens?: boolean | null | undefined;
};
export type DecodeOptions = {
    /**
     * Leaves special tokens out. Default: true.
     */
    skipSpecialTokens?: boolean | null | undefined;
};
export type SignalOptions = {
    /**
     * Ends the call early.
     */
    signal?: AbortSignal | null | undefined;
};
/**
 * The ids of a batch: those of text `n` are `ids.subarray(offsets[n], offsets[n + 1])`.
 */
export type Ragged = {
    /**
     * The ids of all texts, one after the other.
     */
    ids: Uint32Array;
    /**
     * Where each text begins, and the end of the last one. Whole numbers.
     */
    offsets: Float64Array;
};
/**
 * A batch that was encoded. `using` gives its memory back at the end of a block, or `batch[Symbol.dispose]()` at once: the collector of JavaScript
 * lets tens of MB wait before it begins. Both arrays are empty from then on, and so are their subarrays.
 */
export type Batch = Ragged & Disposable;
/**
 * Ids of a text.
 */
export type IdsLike = Uint32Array | readonly number[];
export type CountTokensOptions = {
    /**
     * Counts no further than it must to know that there are more: the result is `Infinity` then.
     */
    limit?: number | null | undefined;
};
export type EncodingsOptions = {
    /**
     * Cuts each row to this number of ids, special tokens included.
     */
    maxLength?: number | null | undefined;
    /**
     * With `overflow`, how many ids a row has in common with the one before. Default: 0.
     */
    stride?: number | null | undefined;
    /**
     * Where ids are cut off. Default: `right`.
     */
    truncationSide?: "right" | "left" | null | undefined;
    /**
     * Which text of a pair is cut. Default: `longestFirst`.
     */
    truncation?: "longestFirst" | "onlyFirst" | "onlySecond" | null | undefined;
    /**
     * Makes rows of what is cut off, too. Default: false.
     */
    overflow?: boolean | null | undefined;
    /**
     * Fills all rows to the length of the longest (`true`), or to this one. Default: false.
     */
    padding?: number | boolean | null | undefined;
    /**
     * Rounds the length up. Default: 1.
     */
    padToMultipleOf?: number | null | undefined;
    /**
     * Default: that of the tokenizer's file, or `right`.
     */
    paddingSide?: "right" | "left" | null | undefined;
    /**
     * The id that fills. Default: that of the tokenizer's file, or of its `[PAD]` or `<pad>`.
     */
    padId?: number | null | undefined;
};
/**
 * Encodings of a batch, row after row: those of row `n` are from `offsets[n]` to `offsets[n + 1]` in each array. With padding, rows are equally
 * long: `ids` is a matrix. `decodeBatch` takes it as a batch.
 */
export type Encodings = {
    ids: Uint32Array;
    /**
     * 1 for the second text of a pair, where the model distinguishes them.
     */
    typeIds: Uint32Array;
    /**
     * 0 for what fills.
     */
    attentionMask: Uint32Array;
    /**
     * 1 for special tokens around texts, and for what fills.
     */
    specialTokensMask: Uint32Array;
    /**
     * Where each token is in its text, in units of JavaScript strings: token `n` is `text.slice(spans[2 * n], spans[2 * n + 1])`.
     */
    spans: Uint32Array;
    /**
     * Where each row begins, and the end of the last one.
     */
    offsets: Float64Array;
    /**
     * The input of each row: with `overflow` several may be of one.
     */
    inputs: Float64Array;
};
/**
 * A message of a conversation, as chat templates take it.
 */
export type Message = {
    role: string;
    content?: unknown;
    [name: string]: unknown;
};
export type ChatOptions = {
    /**
     * The text of a template. Default: that next to the file of the tokenizer, `chat_template.jinja` or in
     * `tokenizer_config.json`.
     */
    chatTemplate?: string | null | undefined;
    /**
     * Tools that the model may call.
     */
    tools?: readonly object[] | null | undefined;
    /**
     * Documents that the template may write.
     */
    documents?: readonly object[] | null | undefined;
    /**
     * Adds what an answer of the model begins with. Default: true.
     */
    addGenerationPrompt?: boolean | null | undefined;
    /**
     * The day that the template sees as today, as in `2026-07-26`. Default: today.
     */
    date?: string | null | undefined;
};
/**
 * A vocabulary, and what encodes with it.
 *
 * It never changes, so any number of calls may use it at the same time. A method whose name ends in `Sync` works on the calling thread, and
 * others help; the methods without it leave the event loop free.
 *
 * A text has the ids that Hugging Face's libraries give it: special tokens are added around it (`addSpecialTokens: false` adds none), and those
 * that are written in it are recognized (the load option `encodeSpecialTokens: true` makes them text). Padding and truncation that a
 * `tokenizer.json` asks for are not applied.
 */
export class Tokenizer {
    /**
     * Reads a `tokenizer.json`, a folder that has one, or a published `.tiktoken` file.
     * @param {string | URL} file
     * @param {LoadOptions | null} [options]
     * @returns {Promise<Tokenizer>}
     */
    static fromFile(file: string | URL, options?: LoadOptions | null): Promise<Tokenizer>;
    /**
     * `fromFile`, on this thread.
     * @param {string | URL} file
     * @param {LoadOptions | null} [options]
     * @returns {Tokenizer}
     */
    static fromFileSync(file: string | URL, options?: LoadOptions | null): Tokenizer;
    /**
     * Reads the text of a `tokenizer.json`.
     * @param {string} json
     * @param {LoadOptions | null} [options]
     * @returns {Promise<Tokenizer>}
     */
    static fromString(json: string, options?: LoadOptions | null): Promise<Tokenizer>;
    /**
     * `fromString`, on this thread.
     * @param {string} json
     * @param {LoadOptions | null} [options]
     * @returns {Tokenizer}
     */
    static fromStringSync(json: string, options?: LoadOptions | null): Tokenizer;
    /**
     * A vocabulary of tiktoken, which is part of this package: `r50k_base` (also `gpt2`), `p50k_base`, `cl100k_base`, `o200k_base` or `o200k_harmony`.
     * All tokenizers of one vocabulary share its memory.
     * @param {string} name
     * @param {LoadOptions | null} [options]
     * @returns {Promise<Tokenizer>}
     */
    static fromTiktoken(name: string, options?: LoadOptions | null): Promise<Tokenizer>;
    /**
     * `fromTiktoken`, on this thread.
     * @param {string} name
     * @param {LoadOptions | null} [options]
     * @returns {Tokenizer}
     */
    static fromTiktokenSync(name: string, options?: LoadOptions | null): Tokenizer;
    /**
     * The tokenizer of a model by its name: one of OpenAI, such as `gpt-4o` or `gpt-oss-20b`, or one that the cache of the Hugging Face Hub has on
     * this machine, such as `Qwen/Qwen2.5-7B`. Nothing is downloaded: the error of a model that is not there has the command that does.
     * @param {string} name
     * @param {LoadOptions | null} [options]
     * @returns {Promise<Tokenizer>}
     */
    static fromModel(name: string, options?: LoadOptions | null): Promise<Tokenizer>;
    /**
     * `fromModel`, on this thread.
     * @param {string} name
     * @param {LoadOptions | null} [options]
     * @returns {Tokenizer}
     */
    static fromModelSync(name: string, options?: LoadOptions | null): Tokenizer;
    /**
     * @param {string} source
     * @param {string} text
     * @param {boolean} encodes
     * @returns {Promise<Tokenizer>}
     */
    static "__#private@#load"(source: string, text: string, encodes: boolean): Promise<Tokenizer>;
    /**
     * @param {string} source
     * @param {string} text
     * @param {boolean} encodes
     * @returns {Tokenizer}
     */
    static "__#private@#loadHere"(source: string, text: string, encodes: boolean): Tokenizer;
    /**
     * For the functions of this class.
     * @param {any} loaded
     * @private
     */
    private constructor();
    /**
     * The name of the vocabulary, or the path that was loaded.
     * @returns {string}
     */
    get name(): string;
    /**
     * The largest id, plus one.
     * @returns {number}
     */
    get vocabSize(): number;
    /**
     * Why windrow's own engine does not encode with it; null if it does.
     * @returns {string | null}
     */
    get delegated(): string | null;
    /**
     * What encodes, why, and what it has done so far.
     * @returns {string}
     */
    explain(): string;
    /**
     * The id of a token.
     * @param {string} token
     * @returns {number | null}
     */
    tokenToId(token: string): number | null;
    /**
     * The token with this id.
     * @param {number} id
     * @returns {string | null}
     */
    idToToken(id: number): string | null;
    /**
     * The ids of a text.
     * @param {string} text
     * @param {(EncodeOptions & SignalOptions) | null} [options]
     * @returns {Promise<Uint32Array>}
     */
    encode(text: string, options?: (EncodeOptions & SignalOptions) | null): Promise<Uint32Array>;
    /**
     * `encode`, on this thread.
     * @param {string} text
     * @param {EncodeOptions | null} [options]
     * @returns {Uint32Array}
     */
    encodeSync(text: string, options?: EncodeOptions | null): Uint32Array;
    /**
     * The ids of many texts, in flat memory, by all CPUs that the process may use.
     *
     * An `ItemError` says which text has no ids, such as one with half of a surrogate pair. Texts may come from a stream, of which each chunk is one.
     * @param {Iterable<string> | AsyncIterable<string>} texts
     * @param {(EncodeOptions & SignalOptions) | null} [options]
     * @returns {Promise<Batch>}
     */
    encodeBatch(texts: Iterable<string> | AsyncIterable<string>, options?: (EncodeOptions & SignalOptions) | null): Promise<Batch>;
    /**
     * `encodeBatch`, on this thread and with the help of others.
     * @param {Iterable<string>} texts
     * @param {EncodeOptions | null} [options]
     * @returns {Batch}
     */
    encodeBatchSync(texts: Iterable<string>, options?: EncodeOptions | null): Batch;
    /**
     * How many ids a text has.
     * @param {string} text
     * @param {(EncodeOptions & SignalOptions) | null} [options]
     * @returns {Promise<number>}
     */
    count(text: string, options?: (EncodeOptions & SignalOptions) | null): Promise<number>;
    /**
     * `count`, on this thread.
     * @param {string} text
     * @param {EncodeOptions | null} [options]
     * @returns {number}
     */
    countSync(text: string, options?: EncodeOptions | null): number;
    /**
     * How many ids each text has, as whole numbers. Texts may come from a stream.
     * @param {Iterable<string> | AsyncIterable<string>} texts
     * @param {(EncodeOptions & SignalOptions) | null} [options]
     * @returns {Promise<Float64Array>}
     */
    countBatch(texts: Iterable<string> | AsyncIterable<string>, options?: (EncodeOptions & SignalOptions) | null): Promise<Float64Array>;
    /**
     * `countBatch`, on this thread and with the help of others.
     * @param {Iterable<string>} texts
     * @param {EncodeOptions | null} [options]
     * @returns {Float64Array}
     */
    countBatchSync(texts: Iterable<string>, options?: EncodeOptions | null): Float64Array;
    /**
     * How many ids a text has, at once and on this thread. With a `limit` the rest of a text that has more is not looked at, where windrow's own
     * engine encodes: so that a long text costs no more than one at the limit.
     * @param {string} text
     * @param {(EncodeOptions & CountTokensOptions) | null} [options]
     * @returns {number} `Infinity` for more than `limit`.
     */
    countTokens(text: string, options?: (EncodeOptions & CountTokensOptions) | null): number;
    /**
     * Whole encodings, for models that take masks, pairs and rows of one length: BERT and its kin. Inputs are all texts, or all pairs of texts.
     * @param {Iterable<string> | Iterable<readonly [string, string]>} inputs
     * @param {(EncodeOptions & EncodingsOptions & SignalOptions) | null} [options]
     * @returns {Promise<Encodings>}
     */
    encodings(inputs: Iterable<string> | Iterable<readonly [string, string]>, options?: (EncodeOptions & EncodingsOptions & SignalOptions) | null): Promise<Encodings>;
    /**
     * `encodings`, on this thread and with the help of others.
     * @param {Iterable<string> | Iterable<readonly [string, string]>} inputs
     * @param {(EncodeOptions & EncodingsOptions) | null} [options]
     * @returns {Encodings}
     */
    encodingsSync(inputs: Iterable<string> | Iterable<readonly [string, string]>, options?: (EncodeOptions & EncodingsOptions) | null): Encodings;
    /**
     * A stream that decodes ids as they come: for the tokens of a model.
     * @param {DecodeOptions | null} [options]
     * @returns {import('./stream.js').DecodeStream}
     */
    decodeStream(options?: DecodeOptions | null): import("./stream.js").DecodeStream;
    /**
     * The text of a conversation, as the chat template of the model writes it.
     * @param {readonly Message[]} messages
     * @param {ChatOptions | null} [options]
     * @returns {string}
     */
    chatText(messages: readonly Message[], options?: ChatOptions | null): string;
    /**
     * The ids of a conversation: `chatText`, encoded. Special tokens that the template writes are recognized, and none are added.
     * @param {readonly Message[]} messages
     * @param {(ChatOptions & SignalOptions) | null} [options]
     * @returns {Promise<Uint32Array>}
     */
    encodeChat(messages: readonly Message[], options?: (ChatOptions & SignalOptions) | null): Promise<Uint32Array>;
    /**
     * The text of ids.
     * @param {IdsLike} ids
     * @param {(DecodeOptions & SignalOptions) | null} [options]
     * @returns {Promise<string>}
     */
    decode(ids: IdsLike, options?: (DecodeOptions & SignalOptions) | null): Promise<string>;
    /**
     * `decode`, on this thread.
     * @param {IdsLike} ids
     * @param {DecodeOptions | null} [options]
     * @returns {string}
     */
    decodeSync(ids: IdsLike, options?: DecodeOptions | null): string;
    /**
     * The texts of a batch of ids: what `encodeBatch` returns, or the ids of each text. Arrays of ids are read until the call ends: they must not
     * change before.
     * @param {Ragged | Iterable<IdsLike>} batch
     * @param {(DecodeOptions & SignalOptions) | null} [options]
     * @returns {Promise<string[]>}
     */
    decodeBatch(batch: Ragged | Iterable<IdsLike>, options?: (DecodeOptions & SignalOptions) | null): Promise<string[]>;
    /**
     * `decodeBatch`, on this thread and with the help of others.
     * @param {Ragged | Iterable<IdsLike>} batch
     * @param {DecodeOptions | null} [options]
     * @returns {string[]}
     */
    decodeBatchSync(batch: Ragged | Iterable<IdsLike>, options?: DecodeOptions | null): string[];
    /**
     * Gives its memory back at once, or at the end of a block that begins with `using`; calls that are running end as usual. The collector of
     * JavaScript does it otherwise.
     */
    [Symbol.dispose](): void;
    #private;
}
/**
 * @template T
 * @param {Iterable<T>} items
 * @param {string} name
 * @param {string} what
 * @returns {Iterable<T>}
 */
export function iterableOf<T>(items: Iterable<T>, name: string, what: string): Iterable<T>;
/**
 * @typedef {object} LoadOptions
 * @property {boolean | null} [encodeSpecialTokens] Special tokens that are written in a text are encoded as any other text. Default: false.
 */
/**
 * @typedef {object} EncodeOptions
 * @property {boolean | null} [addSpecialTokens] Adds the special tokens of the tokenizer around each text, such as `[CLS]` and `[SEP]`. Default:
 * true, as in Hugging Face's libraries.
 */
/**
 * @typedef {object} DecodeOptions
 * @property {boolean | null} [skipSpecialTokens] Leaves special tokens out. Default: true.
 */
/**
 * @typedef {object} SignalOptions
 * @property {AbortSignal | null} [signal] Ends the call early.
 */
/**
 * The ids of a batch: those of text `n` are `ids.subarray(offsets[n], offsets[n + 1])`.
 * @typedef {object} Ragged
 * @property {Uint32Array} ids The ids of all texts, one after the other.
 * @property {Float64Array} offsets Where each text begins, and the end of the last one. Whole numbers.
 */
/**
 * A batch that was encoded. `using` gives its memory back at the end of a block, or `batch[Symbol.dispose]()` at once: the collector of JavaScript
 * lets tens of MB wait before it begins. Both arrays are empty from then on, and so are their subarrays.
 * @typedef {Ragged & Disposable} Batch
 */
/**
 * Ids of a text.
 * @typedef {Uint32Array | readonly number[]} IdsLike
 */
/**
 * @typedef {object} CountTokensOptions
 * @property {number | null} [limit] Counts no further than it must to know that there are more: the result is `Infinity` then.
 */
/**
 * @typedef {object} EncodingsOptions
 * @property {number | null} [maxLength] Cuts each row to this number of ids, special tokens included.
 * @property {number | null} [stride] With `overflow`, how many ids a row has in common with the one before. Default: 0.
 * @property {'right' | 'left' | null} [truncationSide] Where ids are cut off. Default: `right`.
 * @property {'longestFirst' | 'onlyFirst' | 'onlySecond' | null} [truncation] Which text of a pair is cut. Default: `longestFirst`.
 * @property {boolean | null} [overflow] Makes rows of what is cut off, too. Default: false.
 * @property {boolean | number | null} [padding] Fills all rows to the length of the longest (`true`), or to this one. Default: false.
 * @property {number | null} [padToMultipleOf] Rounds the length up. Default: 1.
 * @property {'right' | 'left' | null} [paddingSide] Default: that of the tokenizer's file, or `right`.
 * @property {number | null} [padId] The id that fills. Default: that of the tokenizer's file, or of its `[PAD]` or `<pad>`.
 */
/**
 * Encodings of a batch, row after row: those of row `n` are from `offsets[n]` to `offsets[n + 1]` in each array. With padding, rows are equally
 * long: `ids` is a matrix. `decodeBatch` takes it as a batch.
 * @typedef {object} Encodings
 * @property {Uint32Array} ids
 * @property {Uint32Array} typeIds 1 for the second text of a pair, where the model distinguishes them.
 * @property {Uint32Array} attentionMask 0 for what fills.
 * @property {Uint32Array} specialTokensMask 1 for special tokens around texts, and for what fills.
 * @property {Uint32Array} spans Where each token is in its text, in units of JavaScript strings: token `n` is `text.slice(spans[2 * n], spans[2 * n + 1])`.
 * @property {Float64Array} offsets Where each row begins, and the end of the last one.
 * @property {Float64Array} inputs The input of each row: with `overflow` several may be of one.
 */
/**
 * A message of a conversation, as chat templates take it.
 * @typedef {{ role: string, content?: unknown, [name: string]: unknown }} Message
 */
/**
 * @typedef {object} ChatOptions
 * @property {string | null} [chatTemplate] The text of a template. Default: that next to the file of the tokenizer, `chat_template.jinja` or in
 * `tokenizer_config.json`.
 * @property {readonly object[] | null} [tools] Tools that the model may call.
 * @property {readonly object[] | null} [documents] Documents that the template may write.
 * @property {boolean | null} [addGenerationPrompt] Adds what an answer of the model begins with. Default: true.
 * @property {string | null} [date] The day that the template sees as today, as in `2026-07-26`. Default: today.
 */
/**
 * The addon's object of a tokenizer, for the modules of this package.
 * @type {(tokenizer: Tokenizer) => any}
 */
export let nativeOf: (tokenizer: Tokenizer) => any;
/**
 * A tokenizer that is named as the command names one: a vocabulary, or else a file.
 * @type {(word: string, encodes: boolean) => Promise<Tokenizer>}
 */
export let ofWord: (word: string, encodes: boolean) => Promise<Tokenizer>;
/**
 * A path or a URL of a store.
 * @param {unknown} file
 * @param {string} name
 * @returns {string}
 */
export function pathOf(file: unknown, name: string): string;
