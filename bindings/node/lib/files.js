'use strict';

const { kindOf, later, optionsOf, signalOf, throwIfAborted } = require('./door.js');
const { WindrowError } = require('./errors.js');
const native = require('./native.js');
const { JOB, RUN } = require('./options.js');
const { Tokenizer, iterableOf, nativeOf, ofWord, pathOf } = require('./tokenizer.js');
const { inOptions } = require('./words.js');

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
 * @property {number | null} eos The id after each document.
 * @property {number} seconds
 * @property {string[]} outputs
 * @property {string[]} notes
 */

/**
 * @typedef {object} FilesOptions
 * @property {Tokenizer | string | URL | null} [tokenizer] A tokenizer, a tiktoken name, or the path to a file. Default: `o200k_base`.
 * @property {((progress: Progress) => void) | null} [progress] Is called some ten times a second, and at the end. What it throws ends the run.
 * @property {AbortSignal | null} [signal] Ends the run; nothing is published then.
 */

/**
 * The options of the command `windrow encode`, and those of a call.
 * @typedef {import('./options.js').RunOptions & FilesOptions} EncodeFilesOptions
 */

const NAMES = [...JOB, ...RUN, 'tokenizer', 'progress', 'signal'];

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
  const spec = specOf(inputs, output, known);
  const { progress } = known;
  if (progress !== undefined && progress !== null && typeof progress !== 'function') {
    throw new TypeError(`progress must be a function, not ${kindOf(progress)}`);
  }
  const loaded = await loadedOf(known.tokenizer ?? 'o200k_base', !known.specialInText);
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
      job = new native.FilesJob(spec, nativeOf(loaded), callback);
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
      error.message = NAMES.reduce((message, name) => message.replaceAll(snakeOf(name), name), inOptions(error.message));
    }
    throw error;
  } finally {
    // One of the two has no other listener.
    done.catch(() => {});
    clearInterval(timer);
  }
}

/**
 * The run as JSON.
 * @param {string | URL | Iterable<string | URL>} inputs
 * @param {string | URL} output
 * @param {any} options
 * @returns {string}
 */
function specOf(inputs, output, options) {
  const isOne = typeof inputs === 'string' || inputs instanceof URL;
  const paths = Array.from(isOne ? [inputs] : iterableOf(inputs, 'inputs', 'paths'), (input, at) => pathOf(input, isOne ? 'inputs' : `inputs[${at}]`));
  if (paths.length === 0) {
    throw new TypeError('inputs must name at least one file');
  }
  /** @param {string[]} names */
  const given = (names) => names.filter((name) => (options[name] ?? null) !== null).map((name) => [snakeOf(name), plainOf(options[name], name)]);
  return JSON.stringify({
    job: Object.fromEntries(given(JOB)),
    run: { ...Object.fromEntries(given(RUN)), inputs: paths, output: pathOf(output, 'output') },
  });
}

/**
 * A value for JSON.
 * @param {any} value
 * @param {string} name
 * @returns {unknown}
 */
function plainOf(value, name) {
  if (value instanceof URL) {
    return pathOf(value, name);
  }
  if (!['string', 'number', 'boolean', 'object'].includes(typeof value) || Number.isNaN(value)) {
    throw new TypeError(`${name} must not be ${kindOf(value)}`);
  }
  return typeof value === 'object' && Symbol.iterator in value ? [...value] : value;
}

/**
 * The name of an option in JSON.
 * @param {string} name
 * @returns {string}
 */
function snakeOf(name) {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
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

module.exports = { encodeFiles, loadedOf, plainOf, snakeOf };
