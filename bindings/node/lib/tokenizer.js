/// <reference lib="esnext.disposable" preserve="true" />
'use strict';

const { fileURLToPath } = require('node:url');

const { Turns, halfOf, kindOf, later, optionsOf, resultOf, signalOf, stringOf, throwIfAborted } = require('./door.js');
const { ItemError } = require('./errors.js');
const { Gather } = require('./gather.js');
const { Items, copyIds, copyTexts, disposed, isDetached, run, runHere, runTexts } = require('./jobs.js');
const limits = require('./limits.js');
const native = require('./native.js');
const { decodeStreamOf } = require('./stream.js');

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
let nativeOf;

/**
 * A tokenizer that is named as the command names one: a vocabulary, or else a file.
 * @type {(word: string, encodes: boolean) => Promise<Tokenizer>}
 */
let ofWord;

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
class Tokenizer {
  static {
    nativeOf = (tokenizer) => tokenizer.#open;
    ofWord = (word, encodes) => Tokenizer.#load('word', word, encodes);
  }

  /**
   * Undefined once it was disposed of.
   * @type {any}
   */
  #native;
  /** @type {Record<string, Gather<any, any>>} */
  #gathers = {};
  /** @type {{ source?: string, date: string, chat: any } | undefined} */
  #chat;

  /**
   * For the functions of this class.
   * @param {any} loaded
   * @private
   */
  constructor(loaded) {
    if (!(loaded instanceof native.NativeTokenizer)) {
      throw new TypeError('create a Tokenizer with Tokenizer.fromFile, fromString or fromTiktoken');
    }
    loaded.reportMemory();
    this.#native = loaded;
  }

  /**
   * Reads a `tokenizer.json`, a folder that has one, or a published `.tiktoken` file.
   * @param {string | URL} file
   * @param {LoadOptions | null} [options]
   * @returns {Promise<Tokenizer>}
   */
  static async fromFile(file, options) {
    return Tokenizer.#load('file', pathOf(file, 'file'), encodesSpecialTokens(options, 'fromFile'));
  }

  /**
   * `fromFile`, on this thread.
   * @param {string | URL} file
   * @param {LoadOptions | null} [options]
   * @returns {Tokenizer}
   */
  static fromFileSync(file, options) {
    return Tokenizer.#loadHere('file', pathOf(file, 'file'), encodesSpecialTokens(options, 'fromFileSync'));
  }

  /**
   * Reads the text of a `tokenizer.json`.
   * @param {string} json
   * @param {LoadOptions | null} [options]
   * @returns {Promise<Tokenizer>}
   */
  static async fromString(json, options) {
    return Tokenizer.#load('string', stringOf(json, 'json'), encodesSpecialTokens(options, 'fromString'));
  }

  /**
   * `fromString`, on this thread.
   * @param {string} json
   * @param {LoadOptions | null} [options]
   * @returns {Tokenizer}
   */
  static fromStringSync(json, options) {
    return Tokenizer.#loadHere('string', stringOf(json, 'json'), encodesSpecialTokens(options, 'fromStringSync'));
  }

  /**
   * A vocabulary of tiktoken, which is part of this package: `r50k_base` (also `gpt2`), `p50k_base`, `cl100k_base`, `o200k_base` or `o200k_harmony`.
   * All tokenizers of one vocabulary share its memory.
   * @param {string} name
   * @param {LoadOptions | null} [options]
   * @returns {Promise<Tokenizer>}
   */
  static async fromTiktoken(name, options) {
    return Tokenizer.#load('tiktoken', stringOf(name, 'name'), encodesSpecialTokens(options, 'fromTiktoken'));
  }

  /**
   * `fromTiktoken`, on this thread.
   * @param {string} name
   * @param {LoadOptions | null} [options]
   * @returns {Tokenizer}
   */
  static fromTiktokenSync(name, options) {
    return Tokenizer.#loadHere('tiktoken', stringOf(name, 'name'), encodesSpecialTokens(options, 'fromTiktokenSync'));
  }

  /**
   * The tokenizer of a model by its name: one of OpenAI, such as `gpt-4o` or `gpt-oss-20b`, or one that the cache of the Hugging Face Hub has on
   * this machine, such as `Qwen/Qwen2.5-7B`. Nothing is downloaded: the error of a model that is not there has the command that does.
   * @param {string} name
   * @param {LoadOptions | null} [options]
   * @returns {Promise<Tokenizer>}
   */
  static async fromModel(name, options) {
    return Tokenizer.#load('model', stringOf(name, 'name'), encodesSpecialTokens(options, 'fromModel'));
  }

  /**
   * `fromModel`, on this thread.
   * @param {string} name
   * @param {LoadOptions | null} [options]
   * @returns {Tokenizer}
   */
  static fromModelSync(name, options) {
    return Tokenizer.#loadHere('model', stringOf(name, 'name'), encodesSpecialTokens(options, 'fromModelSync'));
  }

  /**
   * @param {string} source
   * @param {string} text
   * @param {boolean} encodes
   * @returns {Promise<Tokenizer>}
   */
  static async #load(source, text, encodes) {
    return new Tokenizer(await later((callback) => native.NativeTokenizer.load(source, text, encodes, callback)));
  }

  /**
   * @param {string} source
   * @param {string} text
   * @param {boolean} encodes
   * @returns {Tokenizer}
   */
  static #loadHere(source, text, encodes) {
    return new Tokenizer(resultOf(native.NativeTokenizer.loadHere(source, text, encodes)));
  }

  get #open() {
    if (this.#native === undefined) {
      throw disposed('the tokenizer');
    }
    return this.#native;
  }

  /**
   * Gives its memory back at once, or at the end of a block that begins with `using`; calls that are running end as usual. The collector of
   * JavaScript does it otherwise.
   */
  [Symbol.dispose]() {
    // Calls that have begun, as their callers see it.
    Object.values(this.#gathers).forEach((gather) => gather.flush());
    this.#native?.dispose();
    this.#native = undefined;
    this.#chat = undefined;
  }

  /**
   * The name of the vocabulary, or the path that was loaded.
   * @returns {string}
   */
  get name() {
    return this.#open.name;
  }

  /**
   * The largest id, plus one.
   * @returns {number}
   */
  get vocabSize() {
    return this.#open.vocabSize;
  }

  /**
   * Why windrow's own engine does not encode with it; null if it does.
   * @returns {string | null}
   */
  get delegated() {
    return this.#open.delegated ?? null;
  }

  /**
   * What encodes, why, and what it has done so far.
   * @returns {string}
   */
  explain() {
    return this.#open.explain();
  }

  /**
   * The id of a token.
   * @param {string} token
   * @returns {number | null}
   */
  tokenToId(token) {
    return this.#open.tokenToId(stringOf(token, 'token')) ?? null;
  }

  /**
   * The token with this id.
   * @param {number} id
   * @returns {string | null}
   */
  idToToken(id) {
    return resultOf(this.#open.idToToken(idOf(id))) ?? null;
  }

  /**
   * The ids of a text.
   * @param {string} text
   * @param {(EncodeOptions & SignalOptions) | null} [options]
   * @returns {Promise<Uint32Array>}
   */
  async encode(text, options) {
    const { signal, adds } = laterOptions(options, 'encode');
    if (textOf(text).length > limits.small) {
      return (await this.#encodeBatch([text], adds, signal)).ids;
    }
    const gather = this.#gather(`encode ${adds}`, async (texts, stop) => {
      const batch = await this.#encodeBatch(texts, adds, stop);
      const { ids, offsets } = batch;
      return texts.length === 1 ? () => ids : (item) => ids.slice(offsets[item], offsets[item + 1]);
    });
    return gather.add(text, signal);
  }

  /**
   * `encode`, on this thread.
   * @param {string} text
   * @param {EncodeOptions | null} [options]
   * @returns {Uint32Array}
   */
  encodeSync(text, options) {
    const adds = hereOptions(options, 'encodeSync');
    return this.#encodeBatchHere([textOf(text)], adds).ids;
  }

  /**
   * The ids of many texts, in flat memory, by all CPUs that the process may use.
   *
   * An `ItemError` says which text has no ids, such as one with half of a surrogate pair. Texts may come from a stream, of which each chunk is one.
   * @param {Iterable<string> | AsyncIterable<string>} texts
   * @param {(EncodeOptions & SignalOptions) | null} [options]
   * @returns {Promise<Batch>}
   */
  async encodeBatch(texts, options) {
    const { signal, adds } = laterOptions(options, 'encodeBatch');
    return this.#encodeBatch(textsOf(texts, true), adds, signal);
  }

  /**
   * `encodeBatch`, on this thread and with the help of others.
   * @param {Iterable<string>} texts
   * @param {EncodeOptions | null} [options]
   * @returns {Batch}
   */
  encodeBatchSync(texts, options) {
    const adds = hereOptions(options, 'encodeBatchSync');
    return this.#encodeBatchHere(textsOf(texts), adds);
  }

  /**
   * How many ids a text has.
   * @param {string} text
   * @param {(EncodeOptions & SignalOptions) | null} [options]
   * @returns {Promise<number>}
   */
  async count(text, options) {
    const { signal, adds } = laterOptions(options, 'count');
    if (textOf(text).length > limits.small) {
      return (await this.#countBatch([text], adds, signal))[0];
    }
    const gather = this.#gather(`count ${adds}`, async (texts, stop) => {
      const counts = await this.#countBatch(texts, adds, stop);
      return (item) => counts[item];
    });
    return gather.add(text, signal);
  }

  /**
   * `count`, on this thread.
   * @param {string} text
   * @param {EncodeOptions | null} [options]
   * @returns {number}
   */
  countSync(text, options) {
    const adds = hereOptions(options, 'countSync');
    return this.#countBatchHere([textOf(text)], adds)[0];
  }

  /**
   * How many ids each text has, as whole numbers. Texts may come from a stream.
   * @param {Iterable<string> | AsyncIterable<string>} texts
   * @param {(EncodeOptions & SignalOptions) | null} [options]
   * @returns {Promise<Float64Array>}
   */
  async countBatch(texts, options) {
    const { signal, adds } = laterOptions(options, 'countBatch');
    return this.#countBatch(textsOf(texts, true), adds, signal);
  }

  /**
   * `countBatch`, on this thread and with the help of others.
   * @param {Iterable<string>} texts
   * @param {EncodeOptions | null} [options]
   * @returns {Float64Array}
   */
  countBatchSync(texts, options) {
    const adds = hereOptions(options, 'countBatchSync');
    return this.#countBatchHere(textsOf(texts), adds);
  }

  /**
   * How many ids a text has, at once and on this thread. With a `limit` the rest of a text that has more is not looked at, where windrow's own
   * engine encodes: so that a long text costs no more than one at the limit.
   * @param {string} text
   * @param {(EncodeOptions & CountTokensOptions) | null} [options]
   * @returns {number} `Infinity` for more than `limit`.
   */
  countTokens(text, options) {
    const known = optionsOf(options, 'countTokens', ['addSpecialTokens', 'limit']);
    const limit = known.limit ?? Infinity;
    if (typeof limit !== 'number' || !(limit >= 0)) {
      throw new TypeError(`limit must be a number of at least 0, not ${typeof limit === 'number' ? limit : kindOf(limit)}`);
    }
    if (!textOf(text).isWellFormed()) {
      throw new ItemError(0, halfOf(text));
    }
    return resultOf(this.#open.countUpTo(text, flagOf(known, 'addSpecialTokens', true), limit)) ?? Infinity;
  }

  /**
   * Whole encodings, for models that take masks, pairs and rows of one length: BERT and its kin. Inputs are all texts, or all pairs of texts.
   * @param {Iterable<string> | Iterable<readonly [string, string]>} inputs
   * @param {(EncodeOptions & EncodingsOptions & SignalOptions) | null} [options]
   * @returns {Promise<Encodings>}
   */
  async encodings(inputs, options) {
    const { signal, items, job } = this.#encodings(inputs, options, 'encodings', ['signal']);
    return run(job, copyTexts(job, items), signal, items);
  }

  /**
   * `encodings`, on this thread and with the help of others.
   * @param {Iterable<string> | Iterable<readonly [string, string]>} inputs
   * @param {(EncodeOptions & EncodingsOptions) | null} [options]
   * @returns {Encodings}
   */
  encodingsSync(inputs, options) {
    const { items, job } = this.#encodings(inputs, options, 'encodingsSync', []);
    return runHere(job, copyTexts(job, items));
  }

  /**
   * @param {Iterable<any>} inputs
   * @param {any} options
   * @param {string} call
   * @param {string[]} more
   */
  #encodings(inputs, options, call, more) {
    const known = optionsOf(options, call, [...ENCODINGS, ...more]);
    const signal = signalOf(known);
    const list = Array.from(textsOf(inputs));
    const pairs = Array.isArray(list[0]);
    const texts = pairs ? list.flatMap((pair, item) => pairOf(pair, item)) : list;
    const { padding = false } = known;
    if (padding !== null && typeof padding !== 'boolean') {
      countOf(known, 'padding', 1);
    }
    const side = oneOf(known, 'paddingSide', ['right', 'left']);
    const job = new native.EncodingsJob(this.#open, {
      addSpecialTokens: flagOf(known, 'addSpecialTokens', true),
      pairs,
      overflow: flagOf(known, 'overflow', false),
      maxLength: countOf(known, 'maxLength', 1),
      stride: countOf(known, 'stride', 0) ?? 0,
      truncatesLeft: oneOf(known, 'truncationSide', ['right', 'left']) === 'left',
      strategy: oneOf(known, 'truncation', ['longestFirst', 'onlyFirst', 'onlySecond']) ?? 'longestFirst',
      pads: padding !== false && padding !== null,
      length: typeof padding === 'number' ? padding : undefined,
      multiple: countOf(known, 'padToMultipleOf', 1) ?? 1,
      padsLeft: side && side === 'left',
      padId: countOf(known, 'padId', 0),
    });
    return { signal, items: new Items(texts), job };
  }

  /**
   * A stream that decodes ids as they come: for the tokens of a model.
   * @param {DecodeOptions | null} [options]
   * @returns {import('./stream.js').DecodeStream}
   */
  decodeStream(options) {
    const skips = decodeHereOptions(options, 'decodeStream');
    return decodeStreamOf(new native.NativeDecodeStream(this.#open, skips), (ids) => numbersOf(ids, 'ids'));
  }

  /**
   * The text of a conversation, as the chat template of the model writes it.
   * @param {readonly Message[]} messages
   * @param {ChatOptions | null} [options]
   * @returns {string}
   */
  chatText(messages, options) {
    const { chat, row, prompts } = this.#conversation(messages, options, 'chatText', []);
    return resultOf(chat.text(row, prompts));
  }

  /**
   * The ids of a conversation: `chatText`, encoded. Special tokens that the template writes are recognized, and none are added.
   * @param {readonly Message[]} messages
   * @param {(ChatOptions & SignalOptions) | null} [options]
   * @returns {Promise<Uint32Array>}
   */
  async encodeChat(messages, options) {
    const { chat, row, prompts, signal } = this.#conversation(messages, options, 'encodeChat', ['signal']);
    return later((callback) => chat.encode(this.#open, row, prompts, callback), signal);
  }

  /**
   * @param {readonly Message[]} messages
   * @param {any} options
   * @param {string} call
   * @param {string[]} more
   */
  #conversation(messages, options, call, more) {
    const known = optionsOf(options, call, ['addGenerationPrompt', 'chatTemplate', 'date', 'documents', 'tools', ...more]);
    const signal = signalOf(known);
    const source = known.chatTemplate === undefined || known.chatTemplate === null ? undefined : stringOf(known.chatTemplate, 'chatTemplate');
    const date = known.date === undefined || known.date === null ? today() : stringOf(known.date, 'date');
    if (!Array.isArray(messages)) {
      throw new TypeError(`messages must be an array of messages, not ${kindOf(messages)}`);
    }
    // The last one is kept: a conversation follows another with the same template.
    if (this.#chat?.source !== source || this.#chat?.date !== date) {
      this.#chat = { source, date, chat: resultOf(native.NativeChat.load(this.#open, source, date)) };
    }
    const { tools, documents } = known;
    const row = {
      messages: JSON.stringify(messages),
      ...(tools && { tools: JSON.stringify(tools) }),
      ...(documents && { documents: JSON.stringify(documents) }),
    };
    return { chat: this.#chat.chat, row, prompts: flagOf(known, 'addGenerationPrompt', true), signal };
  }

  /**
   * The text of ids.
   * @param {IdsLike} ids
   * @param {(DecodeOptions & SignalOptions) | null} [options]
   * @returns {Promise<string>}
   */
  async decode(ids, options) {
    const { signal, skips } = decodeLaterOptions(options, 'decode');
    const numbers = numbersOf(ids, 'ids');
    if (numbers.length > limits.small) {
      return (await this.#decodeBatch([numbers], skips, signal))[0];
    }
    const gather = this.#gather(`decode ${skips}`, async (items, stop) => {
      const texts = await this.#decodeBatch(items, skips, stop);
      return (item) => texts[item];
    });
    // The caller may change them before the turn is over.
    return gather.add(numbers === ids ? numbers.slice() : numbers, signal);
  }

  /**
   * `decode`, on this thread.
   * @param {IdsLike} ids
   * @param {DecodeOptions | null} [options]
   * @returns {string}
   */
  decodeSync(ids, options) {
    const skips = decodeHereOptions(options, 'decodeSync');
    return this.#decodeBatchHere([numbersOf(ids, 'ids')], skips)[0];
  }

  /**
   * The texts of a batch of ids: what `encodeBatch` returns, or the ids of each text. Arrays of ids are read until the call ends: they must not
   * change before.
   * @param {Ragged | Iterable<IdsLike>} batch
   * @param {(DecodeOptions & SignalOptions) | null} [options]
   * @returns {Promise<string[]>}
   */
  async decodeBatch(batch, options) {
    const { signal, skips } = decodeLaterOptions(options, 'decodeBatch');
    return this.#decodeBatch(idsOf(batch), skips, signal);
  }

  /**
   * `decodeBatch`, on this thread and with the help of others.
   * @param {Ragged | Iterable<IdsLike>} batch
   * @param {DecodeOptions | null} [options]
   * @returns {string[]}
   */
  decodeBatchSync(batch, options) {
    const skips = decodeHereOptions(options, 'decodeBatchSync');
    return this.#decodeBatchHere(idsOf(batch), skips);
  }

  /**
   * Gatherers, one for each kind of call.
   * @param {string} kind
   * @param {(items: any[], signal: AbortSignal) => Promise<(item: number) => any>} work
   * @returns {Gather<any, any>}
   */
  #gather(kind, work) {
    this.#gathers[kind] ??= new Gather(work);
    return this.#gathers[kind];
  }

  /**
   * @param {Iterable<string> | AsyncIterable<string>} texts
   * @param {boolean} adds
   * @param {AbortSignal} [signal]
   * @returns {Promise<Batch>}
   */
  async #encodeBatch(texts, adds, signal) {
    return disposable(await runTexts(new native.EncodeJob(this.#open, adds), texts, signal));
  }

  /**
   * @param {Iterable<string>} texts
   * @param {boolean} adds
   * @returns {Batch}
   */
  #encodeBatchHere(texts, adds) {
    const job = new native.EncodeJob(this.#open, adds);
    return disposable(runHere(job, copyTexts(job, new Items(texts))));
  }

  /**
   * @param {Iterable<string> | AsyncIterable<string>} texts
   * @param {boolean} adds
   * @param {AbortSignal} [signal]
   * @returns {Promise<Float64Array>}
   */
  async #countBatch(texts, adds, signal) {
    return runTexts(new native.CountJob(this.#open, adds), texts, signal);
  }

  /**
   * @param {Iterable<string>} texts
   * @param {boolean} adds
   * @returns {Float64Array}
   */
  #countBatchHere(texts, adds) {
    const job = new native.CountJob(this.#open, adds);
    return runHere(job, copyTexts(job, new Items(texts)));
  }

  /**
   * @param {Iterable<Uint32Array>} ids
   * @param {boolean} skips
   * @param {AbortSignal} [signal]
   * @returns {Promise<string[]>}
   */
  async #decodeBatch(ids, skips, signal) {
    const job = new native.DecodeJob(this.#open, skips);
    const texts = await run(job, copyIds(job, ids), signal);
    const turns = new Turns();
    /** @type {string[]} */
    const strings = [];
    while (takeSome(texts, strings)) {
      if (turns.isOver) {
        await turns.next();
        throwIfAborted(signal);
      }
    }
    return strings;
  }

  /**
   * @param {Iterable<Uint32Array>} ids
   * @param {boolean} skips
   * @returns {string[]}
   */
  #decodeBatchHere(ids, skips) {
    const job = new native.DecodeJob(this.#open, skips);
    const texts = runHere(job, copyIds(job, ids));
    /** @type {string[]} */
    const strings = [];
    while (takeSome(texts, strings));
    return strings;
  }
}

/**
 * Moves texts into strings, some at a time. Returns whether there are more.
 * @param {any} texts
 * @param {string[]} strings
 * @returns {boolean}
 */
function takeSome(texts, strings) {
  if (texts.length === 0) {
    return false;
  }
  // Without a spread: there may be more than a call can have arguments.
  for (const text of texts.take(limits.decodedItems, limits.decodedBytes)) {
    strings.push(text);
  }
  return true;
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
 * @param {LoadOptions | null | undefined} options
 * @param {string} call
 */
function encodesSpecialTokens(options, call) {
  return flagOf(optionsOf(options, call, ['encodeSpecialTokens']), 'encodeSpecialTokens', false);
}

/**
 * @param {(EncodeOptions & SignalOptions) | null | undefined} options
 * @param {string} call
 */
function laterOptions(options, call) {
  const known = optionsOf(options, call, ['addSpecialTokens', 'signal']);
  return { adds: flagOf(known, 'addSpecialTokens', true), signal: signalOf(known) };
}

/**
 * @param {EncodeOptions | null | undefined} options
 * @param {string} call
 */
function hereOptions(options, call) {
  return flagOf(optionsOf(options, call, ['addSpecialTokens']), 'addSpecialTokens', true);
}

/**
 * @param {(DecodeOptions & SignalOptions) | null | undefined} options
 * @param {string} call
 */
function decodeLaterOptions(options, call) {
  const known = optionsOf(options, call, ['skipSpecialTokens', 'signal']);
  return { skips: flagOf(known, 'skipSpecialTokens', true), signal: signalOf(known) };
}

/**
 * @param {DecodeOptions | null | undefined} options
 * @param {string} call
 */
function decodeHereOptions(options, call) {
  return flagOf(optionsOf(options, call, ['skipSpecialTokens']), 'skipSpecialTokens', true);
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
 * A path or a URL of a store.
 * @param {unknown} file
 * @param {string} name
 * @returns {string}
 */
function pathOf(file, name) {
  if (file instanceof URL) {
    return file.protocol === 'file:' ? fileURLToPath(file) : file.href;
  }
  if (stringOf(file, name) === '') {
    throw new TypeError(`${name} must not be empty`);
  }
  return /** @type {string} */ (file);
}

/**
 * @param {unknown} text
 * @returns {string}
 */
function textOf(text) {
  if (typeof text !== 'string') {
    throw new TypeError(`text must be a string, not ${kindOf(text)}`);
  }
  return text;
}

/**
 * @template {Iterable<any> | AsyncIterable<any>} T
 * @param {T} texts
 * @param {boolean} [mayCome] They may come from a stream.
 * @returns {T}
 */
function textsOf(texts, mayCome) {
  if (typeof texts === 'string') {
    throw new TypeError('texts must be several texts, not a single one (hint: put it in an array)');
  }
  if (mayCome && typeof (/** @type {any} */ (texts)?.[Symbol.asyncIterator]) === 'function') {
    return texts;
  }
  return /** @type {T} */ (iterableOf(/** @type {any} */ (texts), 'texts', 'strings'));
}

/** Options of `encodings`. */
const ENCODINGS = [
  'addSpecialTokens',
  'maxLength',
  'overflow',
  'padId',
  'padToMultipleOf',
  'padding',
  'paddingSide',
  'stride',
  'truncation',
  'truncationSide',
];

/**
 * @param {any} pair
 * @param {number} item
 * @returns {[string, string]}
 */
function pairOf(pair, item) {
  if (!Array.isArray(pair) || pair.length !== 2 || !pair.every((text) => typeof text === 'string')) {
    throw new TypeError(`item ${item} must be a pair of strings, like the first one, not ${kindOf(pair)}`);
  }
  return /** @type {[string, string]} */ (pair);
}

/**
 * An option that is a whole number, from `least` on.
 * @param {any} options
 * @param {string} name
 * @param {number} least
 * @returns {number | undefined}
 */
function countOf(options, name, least) {
  const value = options[name] ?? undefined;
  if (value !== undefined && !(Number.isInteger(value) && value >= least && value <= 0xffffffff)) {
    throw new TypeError(`${name} must be a whole number of at least ${least}, not ${typeof value === 'number' ? value : kindOf(value)}`);
  }
  return value;
}

/**
 * An option that is one of some words.
 * @param {any} options
 * @param {string} name
 * @param {string[]} words
 * @returns {string | undefined}
 */
function oneOf(options, name, words) {
  const value = options[name] ?? undefined;
  if (value !== undefined && !words.includes(value)) {
    const shown = typeof value === 'string' ? `'${value}'` : kindOf(value);
    throw new TypeError(`${name} must be ${words.map((word) => `'${word}'`).join(' or ')}, not ${shown}`);
  }
  return value;
}

/** The day where this program runs. */
function today() {
  const now = new Date();
  return [now.getFullYear(), now.getMonth() + 1, now.getDate()].map((number) => String(number).padStart(2, '0')).join('-');
}

/**
 * @template T
 * @param {Iterable<T>} items
 * @param {string} name
 * @param {string} what
 * @returns {Iterable<T>}
 */
function iterableOf(items, name, what) {
  if (typeof items?.[Symbol.iterator] !== 'function') {
    throw new TypeError(`${name} must be an array or another iterable of ${what}, not ${kindOf(items)}`);
  }
  return items;
}

/**
 * @param {unknown} id
 * @param {string} [list]
 * @param {number} [index]
 * @returns {number}
 */
function idOf(id, list, index) {
  if (!(Number.isInteger(id) && /** @type {number} */ (id) >= 0 && /** @type {number} */ (id) <= 0xffffffff)) {
    const shown = typeof id === 'number' ? String(id) : kindOf(id);
    const name = list === undefined ? 'id' : `${list}[${index}]`;
    throw new TypeError(`${name} must be a whole number from 0 to 4294967295, not ${shown}`);
  }
  return /** @type {number} */ (id);
}

/**
 * The ids of a text, as they are if they are in an array of the right kind.
 * @param {IdsLike} ids
 * @param {string} name
 * @returns {Uint32Array}
 */
function numbersOf(ids, name) {
  if (!isUint32Array(ids)) {
    return Uint32Array.from(iterableOf(ids, name, 'ids'), (id, index) => idOf(id, name, index));
  }
  if (ids.length === 0 && isDetached(ids.buffer)) {
    throw disposed(name);
  }
  return ids;
}

/**
 * @param {any} ids
 * @returns {ids is Uint32Array}
 */
function isUint32Array(ids) {
  // Not `instanceof`: it may be of another realm.
  return ArrayBuffer.isView(ids) && /** @type {any} */ (ids)[Symbol.toStringTag] === 'Uint32Array';
}

/**
 * The ids of each item.
 * @param {Ragged | Iterable<IdsLike>} batch
 * @returns {Iterable<Uint32Array>}
 */
function idsOf(batch) {
  if (typeof batch === 'object' && batch !== null && 'ids' in batch && 'offsets' in batch) {
    if (!isUint32Array(batch.ids)) {
      throw new TypeError(`batch.ids must be a Uint32Array, not ${kindOf(batch.ids)}`);
    }
    if (typeof batch.offsets?.length !== 'number') {
      throw new TypeError(`batch.offsets must be an array of numbers, not ${kindOf(batch.offsets)}`);
    }
    return raggedOf(batch);
  }
  return listsOf(iterableOf(batch, 'batch', 'ids'));
}

/**
 * @param {Ragged} batch
 * @returns {Generator<Uint32Array, void, void>}
 */
function* raggedOf({ ids, offsets }) {
  const { length } = offsets;
  const check = () => {
    // An empty list of offsets is none of a batch: that of no texts has one. Others may have had a turn meanwhile.
    if (length === 0 || offsets.length < length || (ids.length === 0 && isDetached(ids.buffer))) {
      throw disposed('batch');
    }
  };
  check();
  for (let item = 0; item + 1 < length; item++) {
    const [begin, end] = [offsets[item], offsets[item + 1]];
    if (!(begin >= 0 && begin <= end && end <= ids.length)) {
      check();
      throw new RangeError(`batch.offsets: item ${item} is from ${begin} to ${end}, which is outside the ${ids.length} ids`);
    }
    yield ids.subarray(begin, end);
  }
}

/**
 * @param {Iterable<IdsLike>} items
 * @returns {Generator<Uint32Array, void, void>}
 */
function* listsOf(items) {
  let item = 0;
  for (const ids of items) {
    yield numbersOf(ids, `batch[${item++}]`);
  }
}

module.exports = { Tokenizer, iterableOf, nativeOf, ofWord, pathOf };
