'use strict';

/** The base of all errors of this package. */
class WindrowError extends Error {
  /**
   * @param {string} message
   * @param {string} code
   */
  constructor(message, code = 'ERR_WINDROW') {
    super(message);
    this.name = new.target.name;
    /**
     * For programs: `ERR_WINDROW_ITEM`, `ERR_WINDROW_TOKENIZER`, `ERR_WINDROW_INPUT`, `ERR_WINDROW_MEMORY`, `ERR_WINDROW_DISPOSED`, `ERR_WINDROW_FAULT`,
     * `ENOENT`, `EEXIST`, `EIO` or `ERR_WINDROW`.
     * @type {string}
     */
    this.code = code;
  }
}

/** A tokenizer cannot be loaded, or does not support what is asked of it. */
class TokenizerError extends WindrowError {}

/** A document, a file or an option of `encodeFiles` is bad. */
class InputError extends WindrowError {}

/** A file does not exist (`ENOENT`), exists (`EEXIST`), or cannot be read or written (`EIO`). */
class FileError extends WindrowError {}

/** An item of a batch has no result, so nothing of the batch is returned. */
class ItemError extends WindrowError {
  /**
   * @param {number} item
   * @param {string} reason
   * @param {string} code
   */
  constructor(item, reason, code = 'ERR_WINDROW_ITEM') {
    super(`item ${item}: ${reason}`, code);
    /** @type {string} */
    this.reason = reason;
    /**
     * The index of the first such item in the batch, counting from 0.
     * @type {number}
     */
    this.item = item;
  }
}

module.exports = { WindrowError, TokenizerError, InputError, FileError, ItemError };
