'use strict';

const path = require('node:path');
const { fileURLToPath } = require('node:url');

const { Turns, kindOf, later, resultOf, signalOf } = require('./door.js');
const { Items, copyIds, copyTexts, run, runHere } = require('./jobs.js');
const native = require('./native.js');

/** Bytes of texts that become strings without a look at the clock. */
const BYTES = 1 << 18;

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
class Tokenizer {
  /** @type {any} */
  #native;

  /**
   * For the functions of this class.
   * @param {any} loaded
   * @internal
   */
  constructor(loaded) {
    if (!(loaded instanceof native.NativeTokenizer)) {
      throw new TypeError('a Tokenizer is made by Tokenizer.fromFile, fromString or fromTiktoken');
    }
    this.#native = loaded;
  }

  /**
   * Reads a `tokenizer.json`, a folder that has one, or a published `.tiktoken` file.
   * @param {string | URL} file
   * @param {LoadOptions} [options]
   * @returns {Promise<Tokenizer>}
   */
  static async fromFile(file, options) {
    return load('file', pathOf(file), options);
  }

  /**
   * `fromFile`, on this thread.
   * @param {string | URL} file
   * @param {LoadOptions} [options]
   * @returns {Tokenizer}
   */
  static fromFileSync(file, options) {
    return loadHere('file', pathOf(file), options);
  }

  /**
   * Reads the text of a `tokenizer.json`.
   * @param {string} json
   * @param {LoadOptions} [options]
   * @returns {Promise<Tokenizer>}
   */
  static async fromString(json, options) {
    return load('string', stringOf(json, 'json'), options);
  }

  /**
   * `fromString`, on this thread.
   * @param {string} json
   * @param {LoadOptions} [options]
   * @returns {Tokenizer}
   */
  static fromStringSync(json, options) {
    return loadHere('string', stringOf(json, 'json'), options);
  }

  /**
   * A vocabulary of tiktoken, which is part of this package: `r50k_base` (also `gpt2`), `cl100k_base` or `o200k_base`.
   * @param {string} name
   * @param {LoadOptions} [options]
   * @returns {Promise<Tokenizer>}
   */
  static async fromTiktoken(name, options) {
    return load('tiktoken', stringOf(name, 'name'), options);
  }

  /**
   * `fromTiktoken`, on this thread.
   * @param {string} name
   * @param {LoadOptions} [options]
   * @returns {Tokenizer}
   */
  static fromTiktokenSync(name, options) {
    return loadHere('tiktoken', stringOf(name, 'name'), options);
  }

  /**
   * The name of the vocabulary, or the path that was loaded.
   * @returns {string}
   */
  get name() {
    return this.#native.name;
  }

  /**
   * The largest id, plus one.
   * @returns {number}
   */
  get vocabSize() {
    return this.#native.vocabSize;
  }

  /**
   * Why windrow's own engine does not encode with it; null if it does.
   * @returns {string | null}
   */
  get delegated() {
    return this.#native.delegated ?? null;
  }

  /**
   * What encodes, why, and what it has done so far.
   * @returns {string}
   */
  explain() {
    return this.#native.explain();
  }

  /**
   * The id of a token.
   * @param {string} token
   * @returns {number | null}
   */
  tokenToId(token) {
    return this.#native.tokenToId(stringOf(token, 'token')) ?? null;
  }

  /**
   * The token with this id.
   * @param {number} id
   * @returns {string | null}
   */
  idToToken(id) {
    return resultOf(this.#native.idToToken(idOf(id))) ?? null;
  }

  /**
   * The ids of a text.
   * @param {string} text
   * @param {EncodeOptions & SignalOptions} [options]
   * @returns {Promise<Uint32Array>}
   */
  async encode(text, options) {
    return (await this.encodeBatch([text], options)).ids;
  }

  /**
   * `encode`, on this thread.
   * @param {string} text
   * @param {EncodeOptions} [options]
   * @returns {Uint32Array}
   */
  encodeSync(text, options) {
    return this.encodeBatchSync([text], options).ids;
  }

  /**
   * The ids of many texts, in flat memory, by all CPUs that the process may use.
   *
   * Half of a surrogate pair counts as U+FFFD, as for `TextEncoder`. An `ItemError` says which text has no ids.
   * @param {Iterable<string>} texts
   * @param {EncodeOptions & SignalOptions} [options]
   * @returns {Promise<Batch>}
   */
  async encodeBatch(texts, options = {}) {
    const signal = signalOf(options);
    const job = new native.EncodeJob(this.#native, addsSpecialTokens(options));
    const items = new Items(iterableOf(texts));
    return disposable(await run(job, copyTexts(job, items), signal, items));
  }

  /**
   * `encodeBatch`, on this thread and with the help of others.
   * @param {Iterable<string>} texts
   * @param {EncodeOptions} [options]
   * @returns {Batch}
   */
  encodeBatchSync(texts, options = {}) {
    const job = new native.EncodeJob(this.#native, addsSpecialTokens(options));
    return disposable(runHere(job, copyTexts(job, new Items(iterableOf(texts)))));
  }

  /**
   * How many ids a text has.
   * @param {string} text
   * @param {EncodeOptions & SignalOptions} [options]
   * @returns {Promise<number>}
   */
  async count(text, options) {
    return (await this.countBatch([text], options))[0];
  }

  /**
   * `count`, on this thread.
   * @param {string} text
   * @param {EncodeOptions} [options]
   * @returns {number}
   */
  countSync(text, options) {
    return this.countBatchSync([text], options)[0];
  }

  /**
   * How many ids each text has, as whole numbers.
   * @param {Iterable<string>} texts
   * @param {EncodeOptions & SignalOptions} [options]
   * @returns {Promise<Float64Array>}
   */
  async countBatch(texts, options = {}) {
    const signal = signalOf(options);
    const job = new native.CountJob(this.#native, addsSpecialTokens(options));
    const items = new Items(iterableOf(texts));
    return run(job, copyTexts(job, items), signal, items);
  }

  /**
   * `countBatch`, on this thread and with the help of others.
   * @param {Iterable<string>} texts
   * @param {EncodeOptions} [options]
   * @returns {Float64Array}
   */
  countBatchSync(texts, options = {}) {
    const job = new native.CountJob(this.#native, addsSpecialTokens(options));
    return runHere(job, copyTexts(job, new Items(iterableOf(texts))));
  }

  /**
   * The text of ids.
   * @param {IdsLike} ids
   * @param {DecodeOptions & SignalOptions} [options]
   * @returns {Promise<string>}
   */
  async decode(ids, options) {
    return (await this.decodeBatch([ids], options))[0];
  }

  /**
   * `decode`, on this thread.
   * @param {IdsLike} ids
   * @param {DecodeOptions} [options]
   * @returns {string}
   */
  decodeSync(ids, options) {
    return this.decodeBatchSync([ids], options)[0];
  }

  /**
   * The texts of a batch of ids: what `encodeBatch` returns, or the ids of each text.
   * @param {Ragged | Iterable<IdsLike>} batch
   * @param {DecodeOptions & SignalOptions} [options]
   * @returns {Promise<string[]>}
   */
  async decodeBatch(batch, options = {}) {
    const signal = signalOf(options);
    const job = new native.DecodeJob(this.#native, skipsSpecialTokens(options));
    const texts = await run(job, copyIds(job, idsOf(batch)), signal);
    const turns = new Turns();
    /** @type {string[]} */
    const strings = [];
    while (strings.length < texts.length) {
      strings.push(...texts.some(strings.length, BYTES));
      if (turns.isOver) {
        await turns.next();
        signal?.throwIfAborted();
      }
    }
    return strings;
  }

  /**
   * `decodeBatch`, on this thread and with the help of others.
   * @param {Ragged | Iterable<IdsLike>} batch
   * @param {DecodeOptions} [options]
   * @returns {string[]}
   */
  decodeBatchSync(batch, options = {}) {
    const job = new native.DecodeJob(this.#native, skipsSpecialTokens(options));
    const texts = runHere(job, copyIds(job, idsOf(batch)));
    /** @type {string[]} */
    const strings = [];
    while (strings.length < texts.length) {
      strings.push(...texts.some(strings.length, BYTES));
    }
    return strings;
  }

  /**
   * What the addon calls this tokenizer, for the modules of this package.
   * @param {Tokenizer} tokenizer
   * @returns {any}
   * @internal
   */
  static _native(tokenizer) {
    return tokenizer.#native;
  }
}

/**
 * The same batch, which can give its memory back.
 * @param {any} batch
 * @returns {Batch}
 */
function disposable(batch) {
  return Object.defineProperty(batch, Symbol.dispose, { value: dispose });
}

/** @this {Ragged} */
function dispose() {
  // Memory that is elsewhere now, or was given back, has no bytes here.
  for (const { buffer } of [this.ids, this.offsets]) {
    if (buffer.byteLength > 0) {
      native.giveMemoryBack(buffer);
    }
  }
}

/**
 * @param {string} source
 * @param {string} text
 * @param {LoadOptions} [options]
 * @returns {Promise<Tokenizer>}
 */
async function load(source, text, options = {}) {
  const encodes = flagOf(options, 'encodeSpecialTokens', false);
  return new Tokenizer(await later((callback) => native.NativeTokenizer.load(source, text, encodes, callback)));
}

/**
 * @param {string} source
 * @param {string} text
 * @param {LoadOptions} [options]
 * @returns {Tokenizer}
 */
function loadHere(source, text, options = {}) {
  const encodes = flagOf(options, 'encodeSpecialTokens', false);
  return new Tokenizer(resultOf(native.NativeTokenizer.loadHere(source, text, encodes)));
}

/** @param {EncodeOptions} options */
function addsSpecialTokens(options) {
  return flagOf(options, 'addSpecialTokens', false);
}

/** @param {DecodeOptions} options */
function skipsSpecialTokens(options) {
  return flagOf(options, 'skipSpecialTokens', true);
}

/**
 * @param {object} options
 * @param {string} name
 * @param {boolean} otherwise
 * @returns {boolean}
 */
function flagOf(options, name, otherwise) {
  const value = /** @type {any} */ (options)[name] ?? otherwise;
  if (typeof value !== 'boolean') {
    throw new TypeError(`${name} must be a boolean, not ${kindOf(value)}`);
  }
  return value;
}

/**
 * @param {unknown} value
 * @param {string} name
 * @returns {string}
 */
function stringOf(value, name) {
  if (typeof value !== 'string') {
    throw new TypeError(`${name} must be a string, not ${kindOf(value)}`);
  }
  return value;
}

/**
 * @param {unknown} file
 * @returns {string}
 */
function pathOf(file) {
  return file instanceof URL ? fileURLToPath(file) : path.normalize(stringOf(file, 'file'));
}

/**
 * @template T
 * @param {Iterable<T>} items
 * @returns {Iterable<T>}
 */
function iterableOf(items) {
  if (typeof items === 'string') {
    throw new TypeError('expected several texts, not a single one (hint: put it into an array)');
  }
  if (typeof items?.[Symbol.iterator] !== 'function') {
    throw new TypeError(`expected an array or another iterable of items, not ${kindOf(items)}`);
  }
  return items;
}

/**
 * @param {unknown} id
 * @returns {number}
 */
function idOf(id) {
  if (!(Number.isInteger(id) && /** @type {number} */ (id) >= 0 && /** @type {number} */ (id) <= 0xffffffff)) {
    const shown = typeof id === 'number' ? String(id) : kindOf(id);
    throw new TypeError(`an id must be a whole number from 0 to 4294967295, not ${shown}`);
  }
  return /** @type {number} */ (id);
}

/**
 * The ids of each item.
 * @param {Ragged | Iterable<IdsLike>} batch
 * @returns {Generator<Uint32Array, void, void>}
 */
function* idsOf(batch) {
  if (batch && 'ids' in batch && 'offsets' in batch) {
    const { ids, offsets } = batch;
    for (let item = 0; item + 1 < offsets.length; item++) {
      if (!(offsets[item] <= offsets[item + 1] && offsets[item + 1] <= ids.length)) {
        throw new RangeError(`item ${item}: its offsets ${offsets[item]} and ${offsets[item + 1]} are not within the ids`);
      }
      yield ids.subarray(offsets[item], offsets[item + 1]);
    }
    return;
  }
  for (const ids of iterableOf(batch)) {
    if (ids instanceof Uint32Array) {
      yield ids;
    } else {
      yield Uint32Array.from(iterableOf(ids), idOf);
    }
  }
}

module.exports = { Tokenizer, pathOf, stringOf };
