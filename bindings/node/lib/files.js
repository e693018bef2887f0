'use strict';

const { kindOf, later, optionsOf, signalOf, stringOf, throwIfAborted } = require('./door.js');
const { WindrowError } = require('./errors.js');
const native = require('./native.js');
const { Tokenizer, iterableOf, nativeOf, ofWord, pathOf } = require('./tokenizer.js');
const { inOptions, wordOf } = require('./words.js');

/** Milliseconds between two reports of progress. */
const LOOK = 100;

/**
 * How far a run has come.
 * @typedef {object} Progress
 * @property {number} storedBytes Bytes of the inputs, as stored, whose documents are encoded.
 * @property {number} [totalBytes] Those of all inputs, if known.
 * @property {number} documents Documents that are encoded.
 * @property {number} textBytes Bytes of their text.
 * @property {number} tokens Their ids, without those that end documents.
 */

/**
 * What `encodeFiles` has done: the object of `windrow encode --json`, and the notes of the command.
 * @typedef {object} Summary
 * @property {{ read: number, written: number, skipped: number, failed: number }} documents `read = written + skipped + failed`.
 * @property {number} bytes Of text, in the written documents.
 * @property {number} tokens
 * @property {number} special_tokens Ids of special tokens that come from the texts.
 * @property {{ name: string, documents: number, bytes: number, tokens: number }[]} inputs
 * @property {string} tokenizer
 * @property {string} format
 * @property {string | null} dtype
 * @property {number | null} eos The id behind each document.
 * @property {number} seconds
 * @property {string[]} outputs
 * @property {string[]} notes
 */

/**
 * The options of the command `windrow encode`, which `windrow encode --help` explains. Null is no option.
 * @typedef {object} EncodeFilesOptions
 * @property {Tokenizer | string | URL | null} [tokenizer] A tokenizer, a name of tiktoken, or the path of a file. Default: `o200k_base`.
 * @property {'npy' | 'nanogpt' | 'megatron' | 'datatrove' | 'mds' | 'jsonl' | 'arrow' | 'parquet' | null} [format] Default: `npy`.
 * @property {string | null} [dtype]
 * @property {boolean | null} [appendEos]
 * @property {string | number | null} [eos]
 * @property {string | number | null} [bos]
 * @property {boolean | null} [addSpecialTokens] Adds the special tokens of the tokenizer around each document. Default: false, as the command; texts
 * have them by default.
 * @property {boolean | null} [specialInText] Recognizes special tokens that are written in a document. Default: they are text, whatever the
 * tokenizer does.
 * @property {boolean | null} [lines]
 * @property {string | readonly string[] | null} [field]
 * @property {string | null} [join]
 * @property {string | readonly string[] | null} [keep]
 * @property {'text' | 'lines' | 'jsonl' | 'parquet' | null} [inputFormat]
 * @property {string | readonly string[] | null} [extensions]
 * @property {boolean | null} [allText]
 * @property {boolean | null} [hidden]
 * @property {boolean | null} [ignoreFiles] Default: true.
 * @property {'fail' | 'skip' | null} [onError] Default: `fail`.
 * @property {number | string | null} [maxSkipped]
 * @property {boolean | null} [overwrite]
 * @property {number | string | null} [shardSize]
 * @property {boolean | null} [resume]
 * @property {number | null} [threads]
 * @property {number | string | null} [memory]
 * @property {((progress: Progress) => void) | null} [progress] Is called some ten times a second, and at the end. What it throws ends the run.
 * @property {AbortSignal | null} [signal] Ends the run; nothing is published then.
 */

/** The kind of each option that becomes words of the command. */
const KINDS = {
  dtype: 'string',
  eos: 'either',
  bos: 'either',
  inputFormat: 'string',
  maxSkipped: 'either',
  threads: 'number',
  memory: 'either',
  shardSize: 'either',
  format: 'string',
  onError: 'string',
  appendEos: 'flag',
  addSpecialTokens: 'flag',
  specialInText: 'flag',
  lines: 'flag',
  allText: 'flag',
  hidden: 'flag',
  overwrite: 'flag',
  resume: 'flag',
  ignoreFiles: 'flag',
  field: 'list',
  keep: 'list',
  extensions: 'list',
  join: 'string',
};

const NAMES = [...Object.keys(KINDS), 'tokenizer', 'progress', 'signal'];

/**
 * Encodes files into token files, as `windrow encode` does, and returns its account.
 *
 * After an error nothing is published. A bad document or option is an `InputError`, a file that cannot be read or written a `FileError`.
 * @param {string | URL | Iterable<string | URL>} inputs Files, folders or patterns.
 * @param {string | URL} output The prefix of the files to write.
 * @param {EncodeFilesOptions | null} [options]
 * @returns {Promise<Summary>}
 */
async function encodeFiles(inputs, output, options) {
  const known = /** @type {any} */ (optionsOf(options, 'encodeFiles', NAMES));
  const signal = signalOf(known);
  const words = wordsOf(inputs, output, known);
  const { progress } = known;
  if (progress !== undefined && progress !== null && typeof progress !== 'function') {
    throw new TypeError(`progress must be a function, not ${kindOf(progress)}`);
  }
  const [adds, special] = [known.addSpecialTokens ?? false, known.specialInText ?? false];
  const loaded = await loadedOf(known.tokenizer ?? 'o200k_base', !special);
  throwIfAborted(signal);
  /** @type {any} */
  let job;
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  /** @type {(error: unknown) => void} */
  let fail = () => {};
  const failed = new Promise((_, reject) => {
    fail = reject;
  });
  const done = later(
    (callback) => {
      job = new native.FilesJob(words, nativeOf(loaded), adds, special, callback);
    },
    signal,
    () => job.stop(),
  );
  if (progress) {
    timer = setInterval(() => {
      try {
        progress(job.progress);
      } catch (error) {
        job.stop();
        fail(error);
      }
    }, LOOK);
  }
  try {
    const { summary, notes } = /** @type {any} */ (await Promise.race([done, failed]));
    progress?.(job.progress);
    return { ...JSON.parse(summary), notes: notes.map(inOptions) };
  } catch (error) {
    if (error instanceof WindrowError) {
      error.message = inOptions(error.message);
    }
    throw error;
  } finally {
    // One of the two has no other listener.
    done.catch(() => {});
    clearInterval(timer);
  }
}

/**
 * The words of the command line.
 * @param {string | URL | Iterable<string | URL>} inputs
 * @param {string | URL} output
 * @param {any} options
 * @returns {string[]}
 */
function wordsOf(inputs, output, options) {
  const words = ['windrow', 'encode', `--output=${pathOf(output, 'output')}`];
  for (const [name, kind] of Object.entries(KINDS)) {
    const value = options[name];
    if (value !== undefined && value !== null) {
      addOption(words, name, kind, value);
    }
  }
  words.push('--');
  const before = words.length;
  const isOne = typeof inputs === 'string' || inputs instanceof URL;
  for (const input of isOne ? [inputs] : iterableOf(inputs, 'inputs', 'paths')) {
    words.push(pathOf(input, isOne ? 'inputs' : `inputs[${words.length - before}]`));
  }
  if (words.length === before) {
    throw new TypeError('inputs must name a file at least');
  }
  return words;
}

/**
 * @param {string[]} words
 * @param {string} name
 * @param {string} kind
 * @param {any} value
 */
function addOption(words, name, kind, value) {
  if (kind === 'flag') {
    if (typeof value !== 'boolean') {
      throw new TypeError(`${name} must be a boolean, not ${kindOf(value)}`);
    }
    if (name === 'ignoreFiles' ? !value : value) {
      words.push(`--${wordOf(name)}`);
    }
  } else if (kind === 'list') {
    const isOne = typeof value === 'string';
    let index = 0;
    for (const each of isOne ? [value] : iterableOf(value, name, 'strings')) {
      words.push(`--${wordOf(name)}=${stringOf(each, isOne ? name : `${name}[${index++}]`)}`);
    }
  } else if (kind !== 'string' && typeof value === 'number') {
    if (!(Number.isSafeInteger(value) && value >= 0)) {
      throw new RangeError(`${name} must be a whole number from 0 on, not ${value}`);
    }
    words.push(`--${wordOf(name)}=${value}`);
  } else if (kind === 'number') {
    throw new TypeError(`${name} must be a number, not ${kindOf(value)}`);
  } else if (kind === 'either' && typeof value !== 'string') {
    throw new TypeError(`${name} must be a number or a string, not ${kindOf(value)}`);
  } else {
    const text = stringOf(value, name);
    // The command reads escapes in it.
    const escaped = name === 'join' ? text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('\t', '\\t') : text;
    words.push(`--${wordOf(name)}=${escaped}`);
  }
}

/**
 * A tokenizer, from all that names one. What is loaded here treats special tokens as it will be used.
 * @param {unknown} tokenizer
 * @param {boolean} encodeSpecialTokens
 * @returns {Promise<Tokenizer>}
 */
async function loadedOf(tokenizer, encodeSpecialTokens) {
  if (tokenizer instanceof Tokenizer) {
    return tokenizer;
  }
  if (tokenizer instanceof URL) {
    return Tokenizer.fromFile(tokenizer, { encodeSpecialTokens });
  }
  if (typeof tokenizer !== 'string') {
    throw new TypeError(`tokenizer must be a Tokenizer, a name, a path or a URL, not ${kindOf(tokenizer)}`);
  }
  return ofWord(pathOf(tokenizer, 'tokenizer'), encodeSpecialTokens);
}

module.exports = { encodeFiles };
