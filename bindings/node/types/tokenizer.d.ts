export type LoadOptions = {
    /**
     * Special tokens that are written in a text are encoded as any other text. Default: false.
     */
    encodeSpecialTokens?: boolean | undefined;
};
export type EncodeOptions = {
    /**
     * Adds the special tokens of the tokenizer around each text. Default: false.
     */
    addSpecialTokens?: boolean | undefined;
};
export type DecodeOptions = {
    /**
     * Leaves special tokens out. Default: true.
     */
    skipSpecialTokens?: boolean | undefined;
};
export type SignalOptions = {
    /**
     * Ends the call early.
     */
    signal?: AbortSignal | undefined;
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
 * @typedef {object} LoadOptions
 * @property {boolean} [encodeSpecialTokens] Special tokens that are written in a text are encoded as any other text. Default: false.
 */
/**
 * @typedef {object} EncodeOptions
 * @property {boolean} [addSpecialTokens] Adds the special tokens of the tokenizer around each text. Default: false.
 */
/**
 * @typedef {object} DecodeOptions
 * @property {boolean} [skipSpecialTokens] Leaves special tokens out. Default: true.
 */
/**
 * @typedef {object} SignalOptions
 * @property {AbortSignal} [signal] Ends the call early.
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
 * A vocabulary, and what encodes with it.
 *
 * It never changes, so any number of calls may use it at the same time. A method whose name ends in `Sync` works on the calling thread, and
 * others help; the methods without it leave the event loop free.
 */
export class Tokenizer {
    /**
     * Reads a `tokenizer.json`, a folder that has one, or a published `.tiktoken` file.
     * @param {string | URL} file
     * @param {LoadOptions} [options]
     * @returns {Promise<Tokenizer>}
     */
    static fromFile(file: string | URL, options?: LoadOptions): Promise<Tokenizer>;
    /**
     * `fromFile`, on this thread.
     * @param {string | URL} file
     * @param {LoadOptions} [options]
     * @returns {Tokenizer}
     */
    static fromFileSync(file: string | URL, options?: LoadOptions): Tokenizer;
    /**
     * Reads the text of a `tokenizer.json`.
     * @param {string} json
     * @param {LoadOptions} [options]
     * @returns {Promise<Tokenizer>}
     */
    static fromString(json: string, options?: LoadOptions): Promise<Tokenizer>;
    /**
     * `fromString`, on this thread.
     * @param {string} json
     * @param {LoadOptions} [options]
     * @returns {Tokenizer}
     */
    static fromStringSync(json: string, options?: LoadOptions): Tokenizer;
    /**
     * A vocabulary of tiktoken, which is part of this package: `r50k_base` (also `gpt2`), `cl100k_base` or `o200k_base`.
     * @param {string} name
     * @param {LoadOptions} [options]
     * @returns {Promise<Tokenizer>}
     */
    static fromTiktoken(name: string, options?: LoadOptions): Promise<Tokenizer>;
    /**
     * `fromTiktoken`, on this thread.
     * @param {string} name
     * @param {LoadOptions} [options]
     * @returns {Tokenizer}
     */
    static fromTiktokenSync(name: string, options?: LoadOptions): Tokenizer;
    /**
     * What the addon calls this tokenizer, for the modules of this package.
     * @param {Tokenizer} tokenizer
     * @returns {any}
     * @internal
     */
    static _native(tokenizer: Tokenizer): any;
    /**
     * For the functions of this class.
     * @param {any} loaded
     * @internal
     */
    constructor(loaded: any);
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
     * @param {EncodeOptions & SignalOptions} [options]
     * @returns {Promise<Uint32Array>}
     */
    encode(text: string, options?: EncodeOptions & SignalOptions): Promise<Uint32Array>;
    /**
     * `encode`, on this thread.
     * @param {string} text
     * @param {EncodeOptions} [options]
     * @returns {Uint32Array}
     */
    encodeSync(text: string, options?: EncodeOptions): Uint32Array;
    /**
     * The ids of many texts, in flat memory, by all CPUs that the process may use.
     *
     * Half of a surrogate pair counts as U+FFFD, as for `TextEncoder`. An `ItemError` says which text has no ids.
     * @param {Iterable<string>} texts
     * @param {EncodeOptions & SignalOptions} [options]
     * @returns {Promise<Batch>}
     */
    encodeBatch(texts: Iterable<string>, options?: EncodeOptions & SignalOptions): Promise<Batch>;
    /**
     * `encodeBatch`, on this thread and with the help of others.
     * @param {Iterable<string>} texts
     * @param {EncodeOptions} [options]
     * @returns {Batch}
     */
    encodeBatchSync(texts: Iterable<string>, options?: EncodeOptions): Batch;
    /**
     * How many ids a text has.
     * @param {string} text
     * @param {EncodeOptions & SignalOptions} [options]
     * @returns {Promise<number>}
     */
    count(text: string, options?: EncodeOptions & SignalOptions): Promise<number>;
    /**
     * `count`, on this thread.
     * @param {string} text
     * @param {EncodeOptions} [options]
     * @returns {number}
     */
    countSync(text: string, options?: EncodeOptions): number;
    /**
     * How many ids each text has, as whole numbers.
     * @param {Iterable<string>} texts
     * @param {EncodeOptions & SignalOptions} [options]
     * @returns {Promise<Float64Array>}
     */
    countBatch(texts: Iterable<string>, options?: EncodeOptions & SignalOptions): Promise<Float64Array>;
    /**
     * `countBatch`, on this thread and with the help of others.
     * @param {Iterable<string>} texts
     * @param {EncodeOptions} [options]
     * @returns {Float64Array}
     */
    countBatchSync(texts: Iterable<string>, options?: EncodeOptions): Float64Array;
    /**
     * The text of ids.
     * @param {IdsLike} ids
     * @param {DecodeOptions & SignalOptions} [options]
     * @returns {Promise<string>}
     */
    decode(ids: IdsLike, options?: DecodeOptions & SignalOptions): Promise<string>;
    /**
     * `decode`, on this thread.
     * @param {IdsLike} ids
     * @param {DecodeOptions} [options]
     * @returns {string}
     */
    decodeSync(ids: IdsLike, options?: DecodeOptions): string;
    /**
     * The texts of a batch of ids: what `encodeBatch` returns, or the ids of each text.
     * @param {Ragged | Iterable<IdsLike>} batch
     * @param {DecodeOptions & SignalOptions} [options]
     * @returns {Promise<string[]>}
     */
    decodeBatch(batch: Ragged | Iterable<IdsLike>, options?: DecodeOptions & SignalOptions): Promise<string[]>;
    /**
     * `decodeBatch`, on this thread and with the help of others.
     * @param {Ragged | Iterable<IdsLike>} batch
     * @param {DecodeOptions} [options]
     * @returns {string[]}
     */
    decodeBatchSync(batch: Ragged | Iterable<IdsLike>, options?: DecodeOptions): string[];
    #private;
}
/**
 * @param {unknown} file
 * @returns {string}
 */
export function pathOf(file: unknown): string;
/**
 * @param {unknown} value
 * @param {string} name
 * @returns {string}
 */
export function stringOf(value: unknown, name: string): string;
