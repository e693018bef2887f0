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
     * A vocabulary of tiktoken, which is part of this package: `r50k_base` (also `gpt2`), `cl100k_base` or `o200k_base`. All tokenizers of
     * one vocabulary share its memory.
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
     * An `ItemError` says which text has no ids, such as one with half of a surrogate pair.
     * @param {Iterable<string>} texts
     * @param {(EncodeOptions & SignalOptions) | null} [options]
     * @returns {Promise<Batch>}
     */
    encodeBatch(texts: Iterable<string>, options?: (EncodeOptions & SignalOptions) | null): Promise<Batch>;
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
     * How many ids each text has, as whole numbers.
     * @param {Iterable<string>} texts
     * @param {(EncodeOptions & SignalOptions) | null} [options]
     * @returns {Promise<Float64Array>}
     */
    countBatch(texts: Iterable<string>, options?: (EncodeOptions & SignalOptions) | null): Promise<Float64Array>;
    /**
     * `countBatch`, on this thread and with the help of others.
     * @param {Iterable<string>} texts
     * @param {EncodeOptions | null} [options]
     * @returns {Float64Array}
     */
    countBatchSync(texts: Iterable<string>, options?: EncodeOptions | null): Float64Array;
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
