'use strict';
// The door: every call of the addon that works comes through here. Failures become errors in one place, and so do aborts.

// The timers of Node itself: tests of users replace the global ones.
const { setImmediate } = require('node:timers');

const { FileError, InputError, ItemError, TokenizerError, WindrowError } = require('./errors.js');

/**
 * After so long the thread of the event loop does something else, in milliseconds. A frame of a screen takes 16.
 */
const SHARE = 4;

/**
 * @typedef {{ failure: string, message: string, item?: number }} Failure
 */

/**
 * @template R
 * @typedef {R | Failure} Outcome
 */

/**
 * The error of a failure.
 * @param {Failure} failure
 * @returns {Error}
 */
function errorOf({ failure, message, item }) {
  switch (failure) {
    case 'item':
      return new ItemError(/** @type {number} */ (item), message);
    case 'memory':
      return new ItemError(/** @type {number} */ (item), message, 'ERR_WINDROW_MEMORY');
    case 'tokenizer':
      return new TokenizerError(message, 'ERR_WINDROW_TOKENIZER');
    case 'input':
      return new InputError(message, 'ERR_WINDROW_INPUT');
    case 'missing':
      return new FileError(message, 'ENOENT');
    case 'exists':
      return new FileError(message, 'EEXIST');
    case 'file':
      return new FileError(message, 'EIO');
    case 'fault':
      return new WindrowError(message, 'ERR_WINDROW_FAULT');
    default:
      return new WindrowError(message);
  }
}

/**
 * The result of an outcome.
 * @template R
 * @param {Outcome<R>} outcome
 * @returns {R}
 */
function resultOf(outcome) {
  const failure = /** @type {any} */ (outcome)?.failure;
  if (failure !== undefined) {
    throw errorOf(/** @type {Failure} */ (outcome));
  }
  return /** @type {R} */ (outcome);
}

/**
 * Calls that the abort of a signal ends. A signal has one listener, however many calls use it: Node warns of a leak from the eleventh on.
 * @type {WeakMap<AbortSignal, { listener: () => void, ends: Set<() => void> }>}
 */
const watched = new WeakMap();

/**
 * Calls `end` when the signal is aborted, until the function that it returns is called.
 * @param {AbortSignal} signal
 * @param {() => void} end
 * @returns {() => void}
 */
function onAbort(signal, end) {
  let watch = watched.get(signal);
  if (watch === undefined) {
    /** @type {Set<() => void>} */
    const ends = new Set();
    const listener = () => {
      watched.delete(signal);
      ends.forEach((each) => each());
    };
    watch = { listener, ends };
    watched.set(signal, watch);
    signal.addEventListener('abort', listener, { once: true });
  }
  const { listener, ends } = watch;
  ends.add(end);
  return () => {
    if (ends.delete(end) && ends.size === 0 && watched.get(signal)?.ends === ends) {
      watched.delete(signal);
      signal.removeEventListener?.('abort', listener);
    }
  };
}

/**
 * The result of a call that takes a callback. An abort ends the wait at once, and what `stop` ends soon after.
 * @template R
 * @param {(callback: (outcome: Outcome<R>) => void) => unknown} call
 * @param {AbortSignal} [signal]
 * @param {() => void} [stop]
 * @returns {Promise<R>}
 */
function later(call, signal, stop) {
  return new Promise((resolve, reject) => {
    const abort = () => {
      stop?.();
      reject(reasonOf(/** @type {AbortSignal} */ (signal)));
    };
    let forget = () => {};
    call((outcome) => {
      forget();
      try {
        resolve(resultOf(outcome));
      } catch (error) {
        reject(error);
      }
    });
    if (signal?.aborted) {
      // By what the call copied: an iterable may do anything.
      abort();
    } else if (signal !== undefined) {
      forget = onAbort(signal, abort);
    }
  });
}

/** Lets the event loop go on, once this thread has had its share. */
class Turns {
  #begin = performance.now();

  /** Whether it is the turn of others. */
  get isOver() {
    return performance.now() - this.#begin > SHARE;
  }

  /** Whether half of it is over. */
  get isHalfOver() {
    return performance.now() - this.#begin > SHARE / 2;
  }

  /** Comes back when the others had their turn. */
  async next() {
    await new Promise((resolve) => setImmediate(resolve));
    this.#begin = performance.now();
  }
}

/**
 * The options of a call: none for null and undefined.
 * @template {object} O
 * @param {O | null | undefined} options
 * @param {string} call
 * @param {readonly string[]} names
 * @returns {O}
 */
function optionsOf(options, call, names) {
  if (options === undefined || options === null) {
    return /** @type {O} */ ({});
  }
  if (typeof options !== 'object') {
    throw new TypeError(`options must be an object, not ${kindOf(options)}`);
  }
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw new TypeError(`${call} has no option ${unknown}\nhint: the options are ${names.join(', ')}`);
  }
  return options;
}

/**
 * The signal of options, if it is one and has not been aborted. Signals of other realms and polyfills are welcome.
 * @param {{ signal?: AbortSignal | null | undefined }} options
 * @returns {AbortSignal | undefined}
 */
function signalOf({ signal }) {
  if (signal === undefined || signal === null) {
    return undefined;
  }
  const { aborted, addEventListener } = /** @type {any} */ (signal);
  if (typeof aborted !== 'boolean' || typeof addEventListener !== 'function') {
    throw new TypeError(`signal must be an AbortSignal, not ${kindOf(signal)}`);
  }
  throwIfAborted(signal);
  return signal;
}

/** @param {AbortSignal | undefined} signal */
function throwIfAborted(signal) {
  if (signal?.aborted) {
    throw reasonOf(signal);
  }
}

/**
 * Reason of an aborted signal. Polyfills may have none.
 * @param {AbortSignal} signal
 * @returns {unknown}
 */
function reasonOf(signal) {
  return signal.reason === undefined ? new DOMException('This operation was aborted', 'AbortError') : signal.reason;
}

/**
 * A string that has a form in UTF-8.
 * @param {unknown} value
 * @param {string} name
 * @returns {string}
 */
function stringOf(value, name) {
  if (typeof value !== 'string') {
    throw new TypeError(`${name} must be a string, not ${kindOf(value)}`);
  }
  if (!value.isWellFormed()) {
    throw new TypeError(`${name} has ${halfOf(value)}`);
  }
  return value;
}

/** Half of a surrogate pair, without the other half. */
const HALF = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

/**
 * Place of a half of a surrogate pair in a string, with the remedy.
 * @param {string} text
 * @returns {string}
 */
function halfOf(text) {
  return `half of a surrogate pair at index ${HALF.exec(text)?.index} (hint: text.toWellFormed() puts U+FFFD there)`;
}

/**
 * What a value is, for messages.
 * @param {unknown} value
 * @returns {string}
 */
function kindOf(value) {
  if (value === null || value === undefined) {
    return String(value);
  }
  return typeof value === 'object' ? (value.constructor?.name ?? 'an object') : `a ${typeof value}`;
}

module.exports = { Turns, halfOf, kindOf, later, onAbort, optionsOf, reasonOf, resultOf, signalOf, stringOf, throwIfAborted };
